//! The outcome of a test as JSON, with iperf3's names where they mean the same (docs/perf.md lists them all).

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::args::Transport;
use super::path_events;
use super::protocol::{CpuReport, Direction, FlowReport, Length, Parameters, Passed, Role, SideReport};
use super::session::Outcome;
use super::track::{FlowInterval, Interval};

/// The description of a test, without its outcome.
#[derive(Debug, Clone)]
pub(crate) struct Test {
    pub(crate) role: Role,
    pub(crate) transport: Transport,
    pub(crate) parameters: Parameters,
    /// "udp" or "raw" with SCTP.
    pub(crate) encapsulation: Option<&'static str>,
    /// The server as the user named it, with its port; at the server, the client.
    pub(crate) other: (String, u16),
    pub(crate) token: String,
    pub(crate) connected: Vec<Connected>,
}

/// The addresses of a flow.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Connected {
    pub(crate) socket: usize,
    /// Local address. An association may have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) local_host: Option<String>,
    pub(crate) local_port: u16,
    pub(crate) remote_host: String,
    pub(crate) remote_port: u16,
    /// UDP port that the packets are sent to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remote_encapsulation_port: Option<u16>,
}

/// A direction of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// The sending side.
    pub(crate) sender: Role,
    /// Whether this is the direction from the server, of two.
    pub(crate) second: bool,
}

impl Way {
    pub(crate) fn receiver(self) -> Role {
        if self.sender == Role::Client { Role::Server } else { Role::Client }
    }

    /// Returns a key of the report. iperf3's names for concurrent traffic from the server to the client have
    /// this suffix.
    fn key(self, name: &str) -> String {
        if self.second { format!("{name}_bidir_reverse") } else { name.to_owned() }
    }
}

impl Test {
    pub(crate) fn ways(&self) -> Vec<Way> {
        let way = |sender, second| Way { sender, second };
        match self.parameters.direction {
            Direction::Up => vec![way(Role::Client, false)],
            Direction::Down => vec![way(Role::Server, false)],
            Direction::Both => vec![way(Role::Client, false), way(Role::Server, true)],
        }
    }

    /// Returns one side's report, if it is known.
    pub(crate) fn side<'a>(&self, outcome: &'a Outcome, role: Role) -> Option<&'a SideReport> {
        if role == self.role { Some(&outcome.own) } else { outcome.peer.as_ref() }
    }

    pub(crate) fn start(&self) -> Value {
        let parameters = &self.parameters;
        let (duration, bytes) = match parameters.length {
            Length::Seconds(seconds) => (seconds, 0),
            Length::Bytes(bytes) => (0.0, bytes),
        };
        let other = json!({ "host": self.other.0, "port": self.other.1 });
        #[allow(clippy::disallowed_methods, reason = "the report says when the test was")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "connected": self.connected,
            "version": concat!("strandline ", env!("CARGO_PKG_VERSION")),
            "timestamp": { "timesecs": since.as_secs() },
            (if self.role == Role::Client { "connecting_to" } else { "accepted_connection" }): other,
            "cookie": self.token,
            "test_start": {
                "protocol": self.transport.name(),
                "num_streams": parameters.flows,
                "blksize": parameters.message_bytes,
                "omit": parameters.omit_seconds,
                "duration": duration,
                "bytes": bytes,
                "blocks": 0,
                "reverse": u8::from(parameters.direction == Direction::Down),
                "bidir": u8::from(parameters.direction == Direction::Both),
                "target_bitrate": parameters.bits_per_second.unwrap_or(0),
                "sctp_streams": parameters.streams,
                "unordered": parameters.unordered,
                "nagle": parameters.nagle,
                "encapsulation": self.encapsulation,
            },
        })
    }

    /// Returns one interval as seen by this side.
    pub(crate) fn interval(&self, interval: &Interval) -> Value {
        let mut streams = Vec::new();
        let mut sums = Map::new();
        for way in self.ways() {
            let sender = way.sender == self.role;
            let each: Vec<_> =
                interval.flows.iter().map(|flow| interval_of(interval, flow, sender)).collect();
            sums.insert(way.key("sum"), sum(&each));
            streams.extend(each.into_iter().enumerate().map(|(number, mut one)| {
                one.insert("socket".into(), json!(number + 1));
                Value::Object(one)
            }));
        }
        sums.insert("streams".into(), Value::Array(streams));
        Value::Object(sums)
    }

    pub(crate) fn end(&self, outcome: &Outcome) -> Value {
        let mut end = Map::new();
        let mut streams = Vec::new();
        for way in self.ways() {
            let sender = self.side(outcome, way.sender).map(|side| side_of(side, true));
            let receiver = self.side(outcome, way.receiver()).map(|side| side_of(side, false));
            for number in 0..usize::from(self.parameters.flows) {
                let mut stream = Map::new();
                for (key, side) in [("sender", &sender), ("receiver", &receiver)] {
                    if let Some(mut one) = side.as_ref().and_then(|flows| flows.get(number)).cloned() {
                        one.insert("socket".into(), json!(number + 1));
                        one.insert("sender".into(), json!(way.sender == self.role));
                        stream.insert(key.into(), Value::Object(one));
                    }
                }
                streams.push(Value::Object(stream));
            }
            for (key, side) in [("sum_sent", sender), ("sum_received", receiver)] {
                if let Some(flows) = side {
                    let mut total = sum(&flows);
                    total["sender"] = json!(way.sender == self.role);
                    end.insert(way.key(key), total);
                }
            }
        }
        end.insert("streams".into(), Value::Array(streams));
        self.add_rate(&mut end);
        self.add_processor_time(outcome, &mut end);
        let first = self.ways().first().copied();
        for (key, role) in [
            ("sender_congestion", first.map(|way| way.sender)),
            ("receiver_congestion", first.map(Way::receiver)),
        ] {
            let name = role.and_then(|role| self.side(outcome, role)?.congestion.as_ref());
            let key = if self.transport == Transport::Tcp { key.replace('_', "_tcp_") } else { key.into() };
            end.extend(name.map(|name| (key, json!(name))));
        }
        end.insert("interrupted".into(), json!(outcome.interrupted));
        if self.parameters.pauses {
            let (failed, back) = path_events::failure(&outcome.path_changes);
            end.insert("path_changes".into(), json!(outcome.path_changes));
            end.extend(failed.map(|t| ("path_failed".to_owned(), json!(t))));
            end.extend(back.map(|t| ("path_back".to_owned(), json!(t))));
        }
        Value::Object(end)
    }

    /// With a rate: adds the requested messages per second in each direction, and those received, in the
    /// direction in which that is fewer. Names and meaning are those of `strandline load`.
    fn add_rate(&self, end: &mut Map<String, Value>) {
        let Some(bits_per_second) = self.parameters.bits_per_second else { return };
        let message_bits = self.parameters.message_bits().max(1.0);
        let reached = self.ways().into_iter().filter_map(|way| {
            // If the test failed, the other side's received data is unknown.
            let total = ["sum_received", "sum_sent"].into_iter().find_map(|name| end.get(&way.key(name)))?;
            Some(total.get("bits_per_second")?.as_f64()? / message_bits)
        });
        let reached = reached.reduce(f64::min);
        end.insert("rate_asked".into(), json!(bits_per_second as f64 / message_bits));
        end.insert("rate_reached".into(), json!(reached));
    }

    fn add_processor_time(&self, outcome: &Outcome, end: &mut Map<String, Value>) {
        let mut percent = Map::new();
        let mut seconds = Map::new();
        for (side, report) in [("host", Some(&outcome.own)), ("remote", outcome.peer.as_ref())] {
            let Some(report) = report else { continue };
            let CpuReport { user_seconds, system_seconds, wall_seconds } = report.cpu;
            let of_wall = |used: f64| json!(100.0 * used / wall_seconds.max(1e-9));
            percent.insert(format!("{side}_total"), of_wall(user_seconds + system_seconds));
            percent.insert(format!("{side}_user"), of_wall(user_seconds));
            percent.insert(format!("{side}_system"), of_wall(system_seconds));
            seconds.insert(
                side.into(),
                json!({
                    "user_seconds": user_seconds,
                    "system_seconds": system_seconds,
                    "wall_seconds": wall_seconds,
                    "seconds_per_gb": seconds_per_gb(report),
                    "shards": report.shards,
                    "by_shard": report.by_shard,
                }),
            );
        }
        end.insert("cpu_utilization_percent".into(), Value::Object(percent));
        end.insert("cpu".into(), Value::Object(seconds));
    }

    /// Returns the whole report.
    pub(crate) fn report(&self, intervals: Vec<Value>, outcome: &Outcome) -> Value {
        let mut report = json!({ "start": self.start(), "intervals": intervals, "end": self.end(outcome) });
        if let Some(failure) = &outcome.failure {
            report["error"] = json!(failure);
        }
        report
    }
}

/// Returns the processor seconds of one side for each GB (10^9 bytes) of its traffic.
pub(crate) fn seconds_per_gb(report: &SideReport) -> Option<f64> {
    let bytes: f64 =
        report.flows.iter().map(|flow| flow.sent.bytes as f64 + flow.received.bytes as f64).sum();
    let seconds = report.cpu.user_seconds + report.cpu.system_seconds;
    (bytes > 0.0).then(|| seconds / (bytes / 1e9))
}

type Object = Map<String, Value>;

/// Adds the values that are known.
fn add(object: &mut Object, known: &[(&str, Option<Value>)]) {
    object.extend(known.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?))));
}

/// Returns the rate in bits per second.
fn per_second(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / seconds.max(1e-9)
}

fn amounts(start: f64, passed: Passed) -> Object {
    let Passed { seconds, bytes, messages } = passed;
    let mut object = Object::new();
    let has_messages = messages > 0;
    add(
        &mut object,
        &[
            ("start", Some(json!(start))),
            ("end", Some(json!(start + seconds))),
            ("seconds", Some(json!(seconds))),
            ("bytes", Some(json!(bytes))),
            ("bits_per_second", Some(json!(per_second(bytes, seconds)))),
            ("messages", has_messages.then(|| json!(messages))),
            ("messages_per_second", has_messages.then(|| json!(messages as f64 / seconds.max(1e-9)))),
        ],
    );
    object
}

fn interval_of(interval: &Interval, flow: &FlowInterval, sender: bool) -> Object {
    let count = if sender { flow.sent } else { flow.received };
    let seconds = interval.end - interval.start;
    let mut object =
        amounts(interval.start, Passed { seconds, bytes: count.bytes, messages: count.messages });
    let figures = &flow.figures;
    if sender {
        add(
            &mut object,
            &[
                ("retransmits", figures.retransmissions.map(Value::from)),
                ("snd_cwnd", figures.cwnd_bytes.map(Value::from)),
                ("snd_wnd", figures.peer_window_bytes.map(Value::from)),
                ("rtt", figures.rtt_us.map(Value::from)),
                ("rttvar", figures.rttvar_us.map(Value::from)),
                ("pmtu", figures.path_mtu_bytes.map(Value::from)),
                ("fast_recoveries", figures.fast_recoveries.map(Value::from)),
                ("timeouts", figures.timeouts.map(Value::from)),
                ("in_flight_bytes", figures.in_flight_bytes.map(Value::from)),
                ("send_queue_bytes", figures.send_queue_bytes.map(Value::from)),
            ],
        );
    } else {
        add(&mut object, &[("receive_queue_bytes", figures.receive_queue_bytes.map(Value::from))]);
    }
    object.insert("omitted".into(), json!(interval.omitted));
    object.insert("sender".into(), json!(sender));
    object
}

/// Returns all flows of one side in one direction.
fn side_of(side: &SideReport, sender: bool) -> Vec<Object> {
    side.flows.iter().map(|flow| flow_of(flow, sender)).collect()
}

fn flow_of(flow: &FlowReport, sender: bool) -> Object {
    let figures = &flow.figures;
    let mut object = amounts(0.0, if sender { flow.sent } else { flow.received });
    let both = [
        ("packets_sent", figures.packets_sent.map(Value::from)),
        ("packets_received", figures.packets_received.map(Value::from)),
        ("sacks_sent", figures.sacks_sent.map(Value::from)),
        ("ecn", figures.ecn.map(Value::from)),
    ];
    add(&mut object, &both);
    if sender {
        add(
            &mut object,
            &[
                ("retransmits", figures.retransmissions.map(Value::from)),
                ("max_snd_cwnd", flow.cwnd_bytes_max.map(Value::from)),
                ("snd_cwnd", figures.cwnd_bytes.map(Value::from)),
                ("snd_wnd", figures.peer_window_bytes.map(Value::from)),
                ("max_rtt", flow.rtt_us.map(|rtt| whole_us(rtt.max))),
                ("min_rtt", flow.rtt_us.map(|rtt| whole_us(rtt.min))),
                ("mean_rtt", flow.rtt_us.map(|rtt| whole_us(rtt.mean))),
                ("pmtu", figures.path_mtu_bytes.map(Value::from)),
                ("fast_recoveries", figures.fast_recoveries.map(Value::from)),
                ("timeouts", figures.timeouts.map(Value::from)),
                ("chunks_sent", figures.chunks_sent.map(Value::from)),
                ("marks_answered", figures.marks_answered.map(Value::from)),
                ("in_flight_bytes", figures.in_flight_bytes.map(Value::from)),
            ],
        );
    } else {
        let in_time = flow.in_time;
        add(
            &mut object,
            &[
                ("marks_received", figures.marks_received.map(Value::from)),
                ("longest_pause", flow.longest_pause.map(Value::from)),
                ("seconds_in_time", in_time.map(|passed| json!(passed.seconds))),
                ("bytes_in_time", in_time.map(|passed| json!(passed.bytes))),
                (
                    "bits_per_second_in_time",
                    in_time.map(|passed| json!(per_second(passed.bytes, passed.seconds))),
                ),
            ],
        );
    }
    object
}

/// Returns microseconds as a whole number, as iperf3 does.
fn whole_us(us: f64) -> Value {
    json!(us.round() as u64)
}

/// Returns the sum of the flows of one direction.
fn sum(flows: &[Object]) -> Value {
    let mut total = flows.first().cloned().unwrap_or_default();
    let most = ["start", "end", "seconds", "max_snd_cwnd", "max_rtt", "longest_pause", "seconds_in_time"];
    for flow in flows.iter().skip(1) {
        for (name, value) in flow {
            let Some(have) = total.get_mut(name) else { continue };
            let combined = match (have.as_u64(), value.as_u64(), have.as_f64(), value.as_f64()) {
                (Some(a), Some(b), ..) if most.contains(&name.as_str()) => json!(a.max(b)),
                (_, _, Some(a), Some(b)) if most.contains(&name.as_str()) => json!(a.max(b)),
                (Some(a), Some(b), ..) => json!(a.saturating_add(b)),
                // ECN counts only if all flows have it.
                _ if value == &json!(false) => json!(false),
                (_, _, Some(a), Some(b)) => json!(a + b),
                _ => continue,
            };
            *have = combined;
        }
    }
    // These values don't add up.
    for name in ["snd_cwnd", "snd_wnd", "rtt", "rttvar", "pmtu", "min_rtt", "mean_rtt"] {
        if flows.len() > 1 {
            total.remove(name);
        }
    }
    // Divides by the longest time, so that flows that ended early don't count for more than they carried.
    let seconds = total.get("seconds").and_then(Value::as_f64).unwrap_or(0.0).max(1e-9);
    let bytes = total.get("bytes").and_then(Value::as_f64).unwrap_or(0.0);
    total.insert("bits_per_second".into(), json!(bytes * 8.0 / seconds));
    if let Some(messages) = total.get("messages").and_then(Value::as_f64) {
        total.insert("messages_per_second".into(), json!(messages / seconds));
    }
    Value::Object(total)
}

#[cfg(test)]
mod tests;
