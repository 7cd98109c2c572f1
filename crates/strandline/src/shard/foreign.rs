//! Peers that encrypt, on a stack that does not: their first datagrams are answered, so that they learn why there is no
//! connection.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use strandline_dtls::answer_to_hello;
use strandline_proto::event::Datagram;
use strandline_proto::time::Time;

use crate::bursts::Bursts;

/// What such a datagram begins with.
const FIRST_BYTE: u8 = 8;

/// Answers that wait; further ones are not given.
const ANSWERS_MAX: usize = 16;

/// Time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The answers that are to be sent.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    answers: Vec<(SocketAddr, Option<IpAddr>, Vec<u8>)>,
    reported_at: Option<Time>,
}

impl Foreign {
    /// Looks at datagrams that have arrived together.
    #[inline]
    pub(crate) fn look_at(&mut self, now: Time, train: &Datagram<'_>, segment_size: usize) {
        if train.bytes.first() == Some(&FIRST_BYTE) && train.source.port() != 0 {
            self.look_closely(now, train, segment_size);
        }
    }

    #[cold]
    fn look_closely(&mut self, now: Time, train: &Datagram<'_>, segment_size: usize) {
        for answer in train.bytes.chunks(segment_size.max(1)).filter_map(answer_to_hello) {
            if self.answers.len() < ANSWERS_MAX {
                self.answers.push((train.source, train.destination, answer));
            }
            if self.reported_at.is_none_or(|at| now.since(at) >= REPORT_INTERVAL) {
                self.reported_at = Some(now);
                tracing::warn!(
                    address = %train.source,
                    "a peer that encrypts was refused: this side needs a key too, or the peer must not encrypt"
                );
            }
        }
    }

    /// Adds the answers to what is sent next, as far as there is room.
    pub(crate) fn gather(&mut self, bursts: &mut Bursts) {
        while let Some((destination, source, answer)) = self.answers.pop() {
            if !bursts.add_datagram(destination, source, &answer) {
                return;
            }
        }
    }
}
