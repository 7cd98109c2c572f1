//! A carrier for tests whose buffer is full whenever the test wants it.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::bursts::Bursts;
use crate::memory;

#[derive(Debug)]
pub(crate) struct Narrow {
    pub(crate) socket: memory::Socket,
    state: Mutex<(usize, Option<Waker>)>,
}

impl Narrow {
    pub(crate) fn new(socket: memory::Socket, room: usize) -> Self {
        Self { socket, state: Mutex::new((room, None)) }
    }

    /// Sets the number of packets that there is room for from now on.
    pub(crate) fn set_room(&self, packets: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = packets;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    /// Sends and removes as many packets as there is room for.
    pub(crate) fn send(&self, bursts: &mut Bursts) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = Vec::new();
        for (transmit, bytes) in bursts.iter() {
            let mut taken = 0;
            for packet in bytes.chunks(transmit.segment_size.max(1)).take(state.0) {
                self.socket.send(transmit.destination, transmit.source, packet);
                taken += packet.len();
                state.0 -= 1;
            }
            left.push(bytes.len() - taken);
        }
        bursts.keep(left);
    }

    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, bursts: &mut Bursts) -> Poll<io::Result<()>> {
        let before = bursts.bytes();
        self.send(bursts);
        if bursts.bytes() == before {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}
