//! What the servers among the programs are measured with. Compiled by rustc alone.
//!
//! `load echo`: a server behind the proxy. `load proxy ADDRESS CONNECTIONS ROUNDS`: sends 4 KiB on each connection, then awaits them
//! on each. `load files ADDRESS CONNECTIONS ROUNDS FOLDER`: asks for a file on each connection, then awaits all. These print how many
//! bytes came back.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};

const MESSAGE_BYTES: usize = 4096;

fn echo() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (mut stream, _) = listener.accept()?;
        std::thread::spawn(move || -> Result<()> {
            stream.set_nodelay(true)?;
            let mut buffer = [0; 4 * MESSAGE_BYTES];
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(()),
                    count => stream.write_all(&buffer[..count])?,
                }
            }
        });
    }
}

fn connect(address: &str, count: usize) -> Result<Vec<TcpStream>> {
    let streams: Result<Vec<_>> = (0..count).map(|_| TcpStream::connect(address)).collect();
    let streams = streams?;
    for stream in &streams {
        stream.set_nodelay(true)?;
    }
    Ok(streams)
}

fn through_proxy(mut streams: Vec<TcpStream>, rounds: usize) -> Result<usize> {
    let mut back = [0; MESSAGE_BYTES];
    for round in 0..rounds {
        let sent = [round as u8; MESSAGE_BYTES];
        for stream in &mut streams {
            stream.write_all(&sent)?;
        }
        for stream in &mut streams {
            stream.read_exact(&mut back)?;
            if back != sent {
                return Err(Error::new(ErrorKind::InvalidData, "other bytes came back"));
            }
        }
    }
    Ok(streams.len() * rounds * MESSAGE_BYTES)
}

fn files(mut streams: Vec<TcpStream>, rounds: usize, folder: &str) -> Result<usize> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| ErrorKind::InvalidData)?;
        files.push((format!("{name}\n"), std::fs::read(entry.path())?));
    }
    let mut total = 0;
    for round in 0..rounds {
        let first = round * streams.len();
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(files[(first + number) % files.len()].0.as_bytes())?;
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let mut len = [0; 8];
            stream.read_exact(&mut len)?;
            let mut contents = vec![0; u64::from_le_bytes(len) as usize];
            stream.read_exact(&mut contents)?;
            if contents != files[(first + number) % files.len()].1 {
                return Err(Error::new(ErrorKind::InvalidData, "another file came back"));
            }
            total += contents.len();
        }
    }
    Ok(total)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let bytes = match args[..] {
        ["echo"] => return Ok(echo()?),
        ["proxy", address, connections, rounds] => {
            through_proxy(connect(address, connections.parse()?)?, rounds.parse()?)?
        }
        ["files", address, connections, rounds, folder] => {
            files(connect(address, connections.parse()?)?, rounds.parse()?, folder)?
        }
        _ => return Err("usage: see the source".into()),
    };
    println!("{bytes} bytes");
    Ok(())
}
