//! The packet that is retransmitted alone when T3-rtx expires or a closed window is probed. Its
//! acknowledgement shows that what was sent before on the same path is lost. If that path has failed
//! meanwhile, the packet is sent on another path, and nothing else would show the fate of the failed path's
//! data.

use crate::number::Tsn;
use crate::time::Time;

/// The retransmission whose acknowledgement decides about everything else in flight on a path.
#[derive(Debug, Default)]
pub(crate) struct ProbingRetransmission {
    /// The lowest chunk of the packet, until it is acknowledged.
    lowest: Option<Tsn>,
    /// When that chunk was retransmitted on another path, if the current SACK acknowledges it.
    answered: Option<(Time, Tsn)>,
}

impl ProbingRetransmission {
    /// Records a chunk of the packet. They come in the order of TSNs.
    pub(crate) fn add_chunk(&mut self, tsn: Tsn) {
        self.lowest.get_or_insert(tsn);
    }

    /// Records that a retransmitted chunk is acknowledged. `elsewhere` contains when it was sent if that was on another
    /// path and the answer is not sooner than any can arrive.
    pub(crate) fn on_acked(&mut self, tsn: Tsn, elsewhere: Option<Time>) {
        if self.lowest.take_if(|lowest| *lowest == tsn).is_some() {
            self.answered = elsewhere.map(|at| (at, tsn));
        }
    }

    /// Ends the processing of a SACK. Returns the retransmission on another path that it answers.
    pub(crate) fn take_answer(&mut self, cumulative: Tsn) -> Option<(Time, Tsn)> {
        self.lowest.take_if(|lowest| cumulative.is_at_or_after(*lowest));
        self.answered.take()
    }
}
