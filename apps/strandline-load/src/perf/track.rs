//! The figures of a test as seen by one side, for each interval and in total.

use std::time::{Duration, Instant};

use strandline_measure::CpuTime;

use super::flow::Flow;
use super::protocol::{CpuReport, Figures, FlowReport, InTime, Passed, SideReport, Spread};
use super::shards::Shards;
use super::tally::{Count, now};

/// The traffic between two samples of all flows.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    /// Seconds since the warm-up ended, or since the start within the warm-up.
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// Whether the interval belongs to the warm-up.
    pub(crate) omitted: bool,
    /// Figures by number of the flow.
    pub(crate) flows: Vec<FlowInterval>,
}

/// The figures of one flow in an interval.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlowInterval {
    pub(crate) sent: Count,
    pub(crate) received: Count,
    /// State at the end of the interval; counters of the interval alone.
    pub(crate) figures: Figures,
}

/// Tracks the flows of a test.
#[derive(Debug)]
pub(crate) struct Tracker {
    base: Instant,
    cpu: CpuTime,
    omitting: bool,
    interval_begin: Instant,
    flows: Vec<Tracked>,
}

/// The tracked data of a flow.
#[derive(Debug, Default)]
struct Tracked {
    base: View,
    interval: View,
    latest: View,
    ended_sending: Option<Instant>,
    ended_receiving: Option<Instant>,
    rtt: Option<RunningSpread>,
    cwnd_bytes_max: Option<u64>,
    longest_pause: Duration,
    in_time: Option<InTime>,
}

/// A flow at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct View {
    sent: Count,
    received: Count,
    figures: Figures,
}

#[derive(Debug, Clone, Copy)]
struct RunningSpread {
    min: f64,
    max: f64,
    sum: f64,
    count: f64,
}

impl Tracker {
    /// Starts tracking.
    pub(crate) fn start(flows: &[Flow], omitting: bool) -> std::io::Result<Self> {
        let begin = now();
        let mut tracker = Self {
            base: begin,
            cpu: CpuTime::now()?,
            omitting,
            interval_begin: begin,
            flows: flows.iter().map(|_| Tracked::default()).collect(),
        };
        tracker.look(flows);
        for tracked in &mut tracker.flows {
            tracked.base = tracked.latest;
            tracked.interval = tracked.latest;
        }
        Ok(tracker)
    }

    /// Ends the warm-up: everything counts from here.
    pub(crate) fn end_warm_up(&mut self, flows: &[Flow]) -> std::io::Result<()> {
        self.look(flows);
        self.omitting = false;
        self.base = now();
        self.interval_begin = self.base;
        self.cpu = CpuTime::now()?;
        for tracked in &mut self.flows {
            tracked.base = tracked.latest;
            tracked.interval = tracked.latest;
            tracked.rtt = None;
            tracked.cwnd_bytes_max = None;
        }
        Ok(())
    }

    /// Ends the time to send: data received by now was received in time.
    pub(crate) fn time_is_over(&mut self, flows: &[Flow]) {
        self.look(flows);
        let seconds = now().saturating_duration_since(self.base).as_secs_f64();
        for tracked in &mut self.flows {
            let received = tracked.latest.received.since(tracked.base.received);
            tracked.in_time = Some(InTime { seconds, bytes: received.bytes });
        }
    }

    /// Notes the end of one direction of a flow.
    pub(crate) fn ended(&mut self, flow: usize, sender: bool, at: Instant) {
        if let Some(tracked) = self.flows.get_mut(flow) {
            let place = if sender { &mut tracked.ended_sending } else { &mut tracked.ended_receiving };
            *place = Some(at);
        }
    }

    /// Samples all flows. Returns true if there was any traffic since the last sample.
    pub(crate) fn look(&mut self, flows: &[Flow]) -> bool {
        let mut passed = false;
        for (tracked, flow) in self.flows.iter_mut().zip(flows) {
            let before = tracked.latest;
            tracked.latest.sent = flow.sent.count();
            tracked.latest.received = flow.received.count();
            tracked.longest_pause = flow.received.longest_pause();
            passed |= (before.sent, before.received) != (tracked.latest.sent, tracked.latest.received);
            // A link that has ended keeps its last figures.
            if let Some(figures) = flow.link.figures() {
                tracked.note(&figures);
            }
        }
        passed
    }

    /// Ends an interval and begins the next. Returns `None` if it would be empty.
    pub(crate) fn interval(&mut self, flows: &[Flow]) -> Option<Interval> {
        self.look(flows);
        let end = now();
        let length = end.saturating_duration_since(self.interval_begin);
        let intervals: Vec<_> = self.flows.iter_mut().map(Tracked::interval).collect();
        let start = self.interval_begin.saturating_duration_since(self.base).as_secs_f64();
        self.interval_begin = end;
        let empty = intervals.iter().all(|flow| flow.sent.bytes == 0 && flow.received.bytes == 0);
        if empty && length.as_millis() < 10 {
            return None;
        }
        let end = start + length.as_secs_f64();
        Some(Interval { start, end, omitted: self.omitting, flows: intervals })
    }

    /// Returns the report up to now, or up to the end of each flow.
    pub(crate) fn report(&self, congestion: Option<String>, shards: &Shards) -> std::io::Result<SideReport> {
        let end = now();
        let cpu = CpuTime::now()?.since(self.cpu);
        let seconds =
            |until: Option<Instant>| until.unwrap_or(end).saturating_duration_since(self.base).as_secs_f64();
        let flows = self.flows.iter().map(|tracked| {
            let (sent, received) = (
                tracked.latest.sent.since(tracked.base.sent),
                tracked.latest.received.since(tracked.base.received),
            );
            let all = || InTime { seconds: seconds(tracked.ended_receiving), bytes: received.bytes };
            FlowReport {
                sent: passed(sent, seconds(tracked.ended_sending)),
                received: passed(received, seconds(tracked.ended_receiving)),
                figures: tracked.latest.figures.since(&tracked.base.figures),
                rtt_us: tracked.rtt.map(RunningSpread::spread),
                cwnd_bytes_max: tracked.cwnd_bytes_max,
                longest_pause: Some(tracked.longest_pause.as_secs_f64()).filter(|pause| *pause > 0.0),
                in_time: Some(tracked.in_time.unwrap_or_else(all)),
            }
        });
        Ok(SideReport {
            cpu: CpuReport {
                user_seconds: cpu.user.as_secs_f64(),
                system_seconds: cpu.system.as_secs_f64(),
                wall_seconds: seconds(None),
            },
            shards: shards.count,
            congestion,
            flows: flows.collect(),
            by_shard: shards.report(),
        })
    }
}

fn passed(count: Count, seconds: f64) -> Passed {
    Passed { seconds, bytes: count.bytes, messages: count.messages }
}

impl Tracked {
    fn note(&mut self, figures: &Figures) {
        self.latest.figures = *figures;
        self.cwnd_bytes_max = self.cwnd_bytes_max.max(figures.cwnd_bytes);
        if let Some(rtt) = figures.rtt_us {
            let spread = self.rtt.get_or_insert(RunningSpread { min: rtt, max: rtt, sum: 0.0, count: 0.0 });
            spread.min = spread.min.min(rtt);
            spread.max = spread.max.max(rtt);
            spread.sum += rtt;
            spread.count += 1.0;
        }
    }

    fn interval(&mut self) -> FlowInterval {
        let (before, latest) = (self.interval, self.latest);
        self.interval = latest;
        FlowInterval {
            sent: latest.sent.since(before.sent),
            received: latest.received.since(before.received),
            figures: latest.figures.since(&before.figures),
        }
    }
}

impl RunningSpread {
    fn spread(self) -> Spread {
        Spread { min: self.min, mean: self.sum / self.count.max(1.0), max: self.max }
    }
}
