//! File names in messages: a shell that is given one as it is shown gets the same bytes.
//!
//! Any name stays on one line and moves no cursor.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::sync::OnceLock;

/// Returns true if the user's locale is one of UTF-8: elsewhere only ASCII can be shown.
fn is_utf8() -> bool {
    static UTF8: OnceLock<bool> = OnceLock::new();
    *UTF8.get_or_init(|| {
        let name = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(std::env::var_os)
            .find(|value| !value.is_empty());
        let name = name.unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        name.ends_with(".utf-8") || name.ends_with(".utf8")
    })
}

/// A name in a shell's quotes: `'a b'`, `"it's"`, `'new'$'\n''line'`.
pub fn name(name: impl AsRef<OsStr>) -> String {
    shell(name.as_ref().as_encoded_bytes(), is_utf8())
}

/// A name as it is where no shell would take it apart, and in quotes elsewhere.
pub fn name_if_odd(name: impl AsRef<OsStr>) -> String {
    let quoted = self::name(&name);
    let plain =
        |byte: &u8| !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"/._-+,%@:]~#".contains(byte);
    let bytes = name.as_ref().as_encoded_bytes();
    let shown = !quoted.contains("'$'") && !bytes.starts_with(b"~") && !bytes.starts_with(b"#");
    if !bytes.is_empty() && shown && bytes.iter().all(plain) {
        return quoted.trim_matches('\'').to_string();
    }
    quoted
}

/// A word of the command line in quotation marks: those of the locale.
pub fn mark(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref().to_string_lossy();
    if is_utf8() {
        format!("\u{2018}{word}\u{2019}")
    } else {
        format!("'{word}'")
    }
}

/// A name's characters, and those bytes that are none or cannot be shown.
enum Piece {
    Shown(char),
    Byte(u8),
}

fn pieces(bytes: &[u8], utf8: bool) -> impl Iterator<Item = Piece> + '_ {
    let shown = move |c: char| c == '\'' || c == '"' || c == '\\' || (c.escape_debug().len() == 1);
    bytes.utf8_chunks().flat_map(move |chunk| {
        let valid = chunk.valid().chars().flat_map(move |c| {
            let mut encoded = [0; 4];
            let bytes = c.encode_utf8(&mut encoded).as_bytes().to_vec();
            if (c.is_ascii() || utf8) && shown(c) {
                vec![Piece::Shown(c)]
            } else {
                bytes.into_iter().map(Piece::Byte).collect()
            }
        });
        valid.chain(chunk.invalid().iter().copied().map(Piece::Byte))
    })
}

fn shell(bytes: &[u8], utf8: bool) -> String {
    let mut text = String::from("'");
    let (mut apostrophe, mut plain) = (false, true);
    let mut escaped = false;
    for (at, piece) in pieces(bytes, utf8).enumerate() {
        match piece {
            Piece::Shown(c) => {
                if c == '\'' {
                    apostrophe = true;
                    text += "'\\''";
                } else {
                    if escaped {
                        text += "''";
                    }
                    text.push(c);
                }
                plain &= plain_in_double_quotes(c, at);
                escaped = false;
            }
            Piece::Byte(byte) => {
                if !escaped {
                    text += "'$'";
                }
                escape(&mut text, byte);
                (escaped, plain) = (true, false);
            }
        }
    }
    text.push('\'');
    if apostrophe && plain {
        return format!("\"{}\"", String::from_utf8_lossy(bytes));
    }
    text
}

/// Returns true if no shell gives the character a meaning inside double quotes, wherever it is.
fn plain_in_double_quotes(c: char, at: usize) -> bool {
    match c {
        '#' | '~' => at == 0,
        '!' | '"' | '$' | '&' | '(' | ')' | '*' | ';' | '<' | '=' | '>' | '?' | '[' | '^' | '`' | '|'
        | '\\' | '{' | '}' => false,
        _ => true,
    }
}

fn escape(text: &mut String, byte: u8) {
    let letter = match byte {
        0x07 => 'a',
        0x08 => 'b',
        b'\t' => 't',
        b'\n' => 'n',
        0x0b => 'v',
        0x0c => 'f',
        b'\r' => 'r',
        _ => {
            write!(text, "\\{byte:03o}").expect("a String takes anything");
            return;
        }
    };
    text.push('\\');
    text.push(letter);
}

#[cfg(test)]
mod tests {
    use super::shell;

    #[test]
    fn names() {
        for (name, quoted) in [
            (&b"a b"[..], "'a b'"),
            (b"", "''"),
            (b"it's", "\"it's\""),
            (b"it's $5", "'it'\\''s $5'"),
            (b"new\nline", "'new'$'\\n''line'"),
            (b"end\n", "'end'$'\\n'"),
            (b"\xff\x01", "''$'\\377\\001'"),
            ("\u{e4}".as_bytes(), "'\u{e4}'"),
            ("\u{9b}".as_bytes(), "''$'\\302\\233'"),
        ] {
            assert_eq!(shell(name, true), quoted);
        }
        assert_eq!(shell("\u{e4}".as_bytes(), false), "''$'\\303\\244'");
    }
}
