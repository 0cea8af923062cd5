//! What a program does with its sockets.

use crate::address::Address;
use crate::context::Context;
use crate::table::SocketId;
use std::io;

/// A server's or client's part: it is called for what happens to its sockets.
///
/// All calls come from [`Sockets::turn`](crate::Sockets::turn), in its thread. A call that takes long holds up all other
/// sockets of the thread.
pub trait Handler {
    /// A connection was accepted, or one of [`Context::connect`] has come about.
    fn opened(&mut self, cx: &mut Context<'_>, id: SocketId) {
        let _ = (cx, id);
    }

    /// A connection of a listener was accepted. By default this is [`opened`](Self::opened).
    fn accepted(&mut self, cx: &mut Context<'_>, listener: SocketId, id: SocketId) {
        let _ = listener;
        self.opened(cx, id);
    }

    /// Bytes have come, in the order in which the peer sent them. They are gone after the call: what is needed later has to
    /// be copied.
    fn received(&mut self, cx: &mut Context<'_>, id: SocketId, bytes: &[u8]);

    /// A datagram has come to a socket of [`Context::open_datagram`]. `from` is its sender, if that has an address. The bytes
    /// are gone after the call.
    fn datagram(&mut self, cx: &mut Context<'_>, id: SocketId, from: Option<&Address>, bytes: &[u8]) {
        let _ = (cx, id, from, bytes);
    }

    /// A datagram was not sent, or the network has told that one did not arrive (`to` is None then). EAGAIN: the queue of the
    /// Unix socket `to` is full. The socket goes on.
    fn datagram_failed(
        &mut self,
        cx: &mut Context<'_>,
        id: SocketId,
        to: Option<&Address>,
        error: &io::Error,
    ) {
        let _ = (cx, id, to, error);
    }

    /// The peer has sent its last byte. By default the stream is closed when everything is sent.
    fn ended(&mut self, cx: &mut Context<'_>, id: SocketId) {
        cx.close(id);
    }

    /// The unsent bytes of a socket, for which [`Context::send`] or [`Context::send_to`] has returned false, are below half of
    /// the bound.
    fn writable(&mut self, cx: &mut Context<'_>, id: SocketId) {
        let _ = (cx, id);
    }

    /// A stream's descriptor is closed, and `id` names nothing any more. `error` says what ended it; None after
    /// [`Context::close`]. A connection that did not come about was never opened, and is closed with its error.
    fn closed(&mut self, cx: &mut Context<'_>, id: SocketId, error: Option<&io::Error>) {
        let _ = (cx, id, error);
    }

    /// Whether a turn is not to wait. It is asked when a turn has done what was left of the one before, of which handlers may
    /// have been told; by default it waits.
    fn has_other_work(&mut self) -> bool {
        false
    }

    /// No connection can be accepted for now (EMFILE, ENFILE, ENOMEM, ENOBUFS). Told once; accepting goes on by itself when
    /// a stream was closed, or after a tenth of a second.
    fn accept_failed(&mut self, cx: &mut Context<'_>, listener: SocketId, error: &io::Error) {
        let _ = (cx, listener, error);
    }
}
