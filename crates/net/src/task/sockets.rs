//! Listeners, streams and datagrams whose calls are futures.

use super::executor::{current, Local};
use super::mail::{Mail, Shared};
use crate::address::Address;
use crate::table::SocketId;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A socket, which is closed when its holder is dropped.
struct Held {
    local: Rc<Local>,
    id: SocketId,
    mail: Shared,
}

impl Held {
    fn new(local: Rc<Local>, id: SocketId) -> Self {
        let mail = Shared::default();
        local.office.borrow_mut().mails.insert(id, Rc::clone(&mail));
        Held { local, id, mail }
    }

    fn address(&self) -> Option<Address> {
        self.local.with(|cx| cx.local(self.id))
    }

    /// Waits until `ready` gives something; who wakes puts a waker into `place`.
    async fn wait<T>(
        &self,
        place: fn(&mut Mail) -> &mut Option<Waker>,
        mut ready: impl FnMut(&mut Mail) -> Option<T>,
    ) -> T {
        poll_fn(|cx| {
            let mut mail = self.mail.borrow_mut();
            match ready(&mut mail) {
                Some(value) => Poll::Ready(value),
                None => {
                    place(&mut mail).replace(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Receives again if it was paused and enough was taken.
    fn resume(&self) {
        if self.mail.borrow_mut().resumes() {
            self.local.with(|cx| cx.resume(self.id));
        }
    }

    /// Waits for room to send.
    async fn room(&self) -> io::Result<()> {
        let room = |mail: &mut Mail| match (mail.is_closed, mail.is_full) {
            (true, _) => Some(Err(mail.end())),
            (false, true) => None,
            (false, false) => Some(Ok(())),
        };
        self.wait(|mail| &mut mail.writer, room).await
    }

    async fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let next = |mail: &mut Mail| {
            if let Some(count) = mail.take(into) {
                return Some(Ok(count));
            }
            if mail.is_closed && mail.error.is_some() {
                return Some(Err(mail.end()));
            }
            (mail.has_ended || mail.is_closed).then_some(Ok(0))
        };
        let count = self.wait(|mail| &mut mail.reader, next).await?;
        self.resume();
        Ok(count)
    }

    async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.room().await?;
        let Held { local, id, mail } = self;
        if mail.borrow().is_shut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let (has_room, is_open) = local.with(|cx| (cx.send(*id, bytes), cx.is_open(*id)));
        if is_open {
            mail.borrow_mut().is_full = !has_room;
            return Ok(());
        }
        // What has ended it is known when it is closed.
        let closed = |mail: &mut Mail| mail.is_closed.then(|| mail.end());
        Err(self.wait(|mail| &mut mail.writer, closed).await)
    }

    fn shutdown(&self) {
        self.mail.borrow_mut().is_shut = true;
        self.local.shutdown(self.id);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.local.close(self.id);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Socket").field(&self.id).finish()
    }
}

/// Accepts connections. It is closed when it is dropped.
#[derive(Debug)]
pub struct Listener(Held);

impl Listener {
    /// Listens on an address.
    ///
    /// # Errors
    /// Those of bind(2) and listen(2), with the address; an error outside of [`Group::block_on`](crate::Group::block_on).
    pub fn bind(address: &Address) -> io::Result<Self> {
        let local = current()?;
        let id = local.listen(address)?;
        Ok(Listener(Held::new(local, id)))
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// EMFILE and the like, once until a connection is accepted again: it may be called again, and waits then.
    pub async fn accept(&mut self) -> io::Result<Stream> {
        let next = |mail: &mut Mail| {
            if let Some(accepted) = mail.accepted.pop_front() {
                return Some(Ok(accepted));
            }
            let ended = || mail.is_closed.then(|| mail.end());
            let error = ended();
            mail.errors.pop_front().or(error).map(Err)
        };
        let (id, mail) = self.0.wait(|mail| &mut mail.reader, next).await?;
        let local = Rc::clone(&self.0.local);
        Ok(Stream(Held { local, id, mail }))
    }

    /// The address that it listens on.
    pub fn address(&self) -> Option<Address> {
        self.0.address()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Connections that nobody has taken.
        let accepted = std::mem::take(&mut self.0.mail.borrow_mut().accepted);
        for (id, mail) in accepted {
            let local = Rc::clone(&self.0.local);
            drop(Held { local, id, mail });
        }
    }
}

/// A connection. When it is dropped, what was written is sent, and it is closed.
#[derive(Debug)]
pub struct Stream(Held);

impl Stream {
    /// Connects to an address.
    ///
    /// # Errors
    /// Those of connect(2), with the address where no socket can be made; an error outside of
    /// [`Group::block_on`](crate::Group::block_on).
    pub async fn connect(address: &Address) -> io::Result<Self> {
        let local = current()?;
        let id = local.with(|cx| cx.connect(address))?;
        let held = Held::new(local, id);
        let opened = |mail: &mut Mail| match (mail.is_open, mail.is_closed) {
            (true, _) => Some(Ok(())),
            (false, true) => Some(Err(mail.end())),
            (false, false) => None,
        };
        held.wait(|mail| &mut mail.reader, opened).await?;
        Ok(Stream(held))
    }

    /// Reads what has come, at least a byte; 0 at the end, and for a buffer of no length.
    ///
    /// # Errors
    /// What has ended the connection, after all that came before was read.
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).await
    }

    /// Writes all bytes, after it has waited until fewer are unsent than the bound ([`Limits`](crate::Limits)). They are sent
    /// together with what other futures of the thread write.
    ///
    /// # Errors
    /// What has ended the connection; `BrokenPipe` after [`shutdown`](Self::shutdown).
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Ends the sending side once everything is sent. It can still be read from.
    pub fn shutdown(&mut self) {
        self.0.shutdown();
    }

    /// Both directions, each for a task of its own. It is closed when both halves are dropped.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        let held = Rc::new(self.0);
        (ReadHalf(Rc::clone(&held)), WriteHalf(held))
    }

    /// Closes it, and waits until everything is sent and the peer has ended, too, or time is over ([`Limits`](crate::Limits)).
    ///
    /// # Errors
    /// What has ended the connection before.
    pub async fn close(self) -> io::Result<()> {
        self.0.local.with(|cx| cx.close(self.0.id));
        let closed = |mail: &mut Mail| {
            mail.is_closed.then(|| match mail.error {
                Some(_) => Err(mail.end()),
                None => Ok(()),
            })
        };
        self.0.wait(|mail| &mut mail.reader, closed).await
    }

    /// The address of the peer, if it has one.
    pub fn peer(&self) -> Option<Address> {
        self.0.local.with(|cx| cx.peer(self.0.id))
    }
}

/// The receiving side of a connection. Made by [`Stream::into_split`].
#[derive(Debug)]
pub struct ReadHalf(Rc<Held>);

impl ReadHalf {
    /// As [`Stream::read`].
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).await
    }
}

/// The sending side of a connection. Made by [`Stream::into_split`]. When it is dropped, the peer hears of the end once
/// everything is sent.
#[derive(Debug)]
pub struct WriteHalf(Rc<Held>);

impl WriteHalf {
    /// As [`Stream::write_all`].
    ///
    /// # Errors
    /// What has ended the connection.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.0.local.shutdown(self.0.id);
    }
}

/// A socket for datagrams, UDP or Unix. It is closed when it is dropped.
#[derive(Debug)]
pub struct Datagram(Held);

impl Datagram {
    /// Opens a socket bound to `local`; with a `peer` it sends there, and receives from there alone.
    ///
    /// # Errors
    /// Those of bind(2) and connect(2), with the address; an error outside of [`Group::block_on`](crate::Group::block_on).
    pub fn bind(local: &Address, peer: Option<&Address>) -> io::Result<Self> {
        let current = current()?;
        let id = current.with(|cx| cx.open_datagram(local, peer))?;
        Ok(Datagram(Held::new(current, id)))
    }

    /// Waits for a datagram, and for its sender, if that has an address.
    ///
    /// # Errors
    /// Why a datagram was not sent, or did not arrive: it may be called again.
    pub async fn receive(&mut self) -> io::Result<(Vec<u8>, Option<Address>)> {
        let next = |mail: &mut Mail| {
            if let Some(datagram) = mail.take_datagram() {
                return Some(Ok(datagram));
            }
            let ended = mail.is_closed.then(|| mail.end());
            mail.errors.pop_front().or(ended).map(Err)
        };
        let datagram = self.0.wait(|mail| &mut mail.reader, next).await?;
        self.0.resume();
        Ok(datagram)
    }

    /// Sends a datagram, after it has waited for room; `to` is None on a socket with a peer.
    ///
    /// # Errors
    /// What has ended the socket. That the kernel refuses a datagram is told by [`receive`](Self::receive).
    pub async fn send(&mut self, bytes: &[u8], to: Option<&Address>) -> io::Result<()> {
        loop {
            self.0.room().await?;
            let Held { local, id, mail } = &self.0;
            if local.with(|cx| cx.send_to(*id, to, bytes)) {
                return Ok(());
            }
            mail.borrow_mut().is_full = true;
        }
    }

    /// The address that it is bound to.
    pub fn address(&self) -> Option<Address> {
        self.0.address()
    }
}
