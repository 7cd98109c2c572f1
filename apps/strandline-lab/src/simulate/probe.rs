//! Short messages beside the bulk of a simulation, sent back by the other side: how long each takes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use strandline::{Message, SendInfo, StreamId};
use strandline_sim::pair::{AssociationId as Id, Pair, Side};

/// The stream of these messages. The bulk has stream 0.
pub(super) const PROBES: StreamId = StreamId(1);
/// Priority of the bulk: 0 is the highest.
const BULK_PRIORITY: u16 = 10;
/// What comes before the first message: the slow start of the bulk.
const WARM_UP: Duration = Duration::from_secs(5);

/// The messages of one simulation.
pub(super) struct Probes {
    sender: Id,
    receiver: Id,
    message: Bytes,
    interval: Duration,
    next: Duration,
    /// When those that are under way were sent.
    sent: VecDeque<Duration>,
    /// Round-trip times in microseconds, and the smoothed one of the path when each was sent.
    times: Histogram<u64>,
    paths: Histogram<u64>,
    refused: u64,
}

impl Probes {
    /// Gives the messages precedence over the bulk.
    pub(super) fn start(
        pair: &mut Pair,
        (sender, receiver): (Id, Id),
        size: usize,
        interval: Duration,
    ) -> anyhow::Result<Self> {
        pair.set_stream_value(Side::A, sender, 0, BULK_PRIORITY);
        let next = pair.elapsed() + WARM_UP;
        let message = Bytes::from(vec![b'p'; size.max(1)]);
        // Microseconds, with three digits.
        let (times, paths) = (Histogram::new(3)?, Histogram::new(3)?);
        Ok(Self {
            sender,
            receiver,
            message,
            interval,
            next,
            sent: VecDeque::new(),
            times,
            paths,
            refused: 0,
        })
    }

    /// Sends a message back.
    pub(super) fn send_back(&mut self, pair: &mut Pair, message: Message) {
        let sent = pair.b.endpoint.send(pair.now, self.receiver, SendInfo::on(PROBES), message.data);
        self.refused += u64::from(sent.is_err());
    }

    /// Sends the next message if it is due, and records those that are back.
    pub(super) fn go_on(&mut self, pair: &mut Pair) {
        let now = pair.elapsed();
        for _ in pair.recv_all(Side::A, self.sender) {
            if let Some(sent) = self.sent.pop_front() {
                record(&mut self.times, now - sent);
            }
        }
        if now < self.next {
            return;
        }
        self.next = now + self.interval;
        let paths = pair.a.endpoint.paths(self.sender).unwrap_or_default();
        if let Some(srtt) = paths.first().and_then(|path| path.srtt) {
            record(&mut self.paths, srtt);
        }
        match pair.a.endpoint.send(pair.now, self.sender, SendInfo::on(PROBES), self.message.clone()) {
            Ok(()) => self.sent.push_back(now),
            Err(_) => self.refused += 1,
        }
    }

    /// Returns the part of the report.
    pub(super) fn report(&self) -> Value {
        let ms = |times: &Histogram<u64>, quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
        json!({
            "bytes": self.message.len(),
            "count": self.times.len(),
            "refused": self.refused,
            "min_ms": self.times.min() as f64 / 1000.0,
            "p50_ms": ms(&self.times, 0.5),
            "p99_ms": ms(&self.times, 0.99),
            "max_ms": self.times.max() as f64 / 1000.0,
            "path_p50_ms": ms(&self.paths, 0.5),
        })
    }
}

fn record(times: &mut Histogram<u64>, time: Duration) {
    // It grows as needed; only what is too large for 64 bits is no value.
    let _ = times.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
}
