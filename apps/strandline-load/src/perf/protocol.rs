//! The messages that the two sides of a test exchange, in JSON, and their limits. The control exchange:
//!
//! ```text
//! client                                       server
//!   | -- control: Test(parameters) ------------> |
//!   | <------------ Accepted(token) or Refused -- |
//!   | -- each flow: Join(token, number) -------> |
//!   | <------------------- Joined or Elsewhere -- |  Elsewhere: on another association, please
//!   | <------------------------------- Begin ---- |  once every flow has come
//!   | <========== messages of the test ========> |
//!   | -- Stop (only after Ctrl-C) -------------> |
//!   | -- Finished(its figures) ----------------> |  once its part is done
//!   | <------------------ Finished(its figures) - |  once its part is done and the client's figures are there
//! ```
//!
//! Every message carries the version. `Refused` stays the same in all versions, so that a client of another version
//! can print the reason.

use serde::{Deserialize, Serialize};

/// Version of this exchange.
pub(crate) const VERSION: u32 = 1;
/// Maximum length of a control message in bytes. The figures of 256 flows take 256 KB at most.
pub(crate) const CONTROL_BYTES_MAX: usize = 320 << 10;
/// Maximum number of associations or TCP connections of a test.
pub(crate) const FLOWS_MAX: u16 = 256;
/// Maximum number of attempts of a flow to reach its shard; after the last one it stays where it is. The
/// shard that an association reaches is a matter of chance.
pub(crate) const ATTEMPTS_MAX: u8 = 32;
/// Maximum length of a test message in bytes.
pub(crate) const SIZE_MAX: u32 = 16 << 20;
/// Maximum total of one message of every flow, in MiB: each may wait whole in a send buffer.
pub(crate) const TURN_MIB_MAX: u32 = 1024;
/// Maximum duration of a test in seconds.
pub(crate) const SECONDS_MAX: f64 = 86_400.0;
/// Maximum time between two messages of a paced flow in seconds: less than what counts as a stalled test.
const GAP_SECONDS_MAX: f64 = 10.0;

/// The direction of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    /// From client to server.
    Up,
    /// From server to client.
    Down,
    /// Both at once, on the same associations.
    Both,
}

/// The side of the test that this process takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Client,
    Server,
}

/// The condition that ends a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Length {
    Seconds(f64),
    /// Number of bytes in each direction, by all flows together.
    Bytes(u64),
}

/// The parameters of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Parameters {
    pub(crate) direction: Direction,
    pub(crate) length: Length,
    /// Seconds at the start that don't count.
    pub(crate) omit_seconds: f64,
    pub(crate) message_bytes: u32,
    /// Number of streams of each association, used in turn.
    pub(crate) streams: u16,
    /// Number of associations or TCP connections.
    pub(crate) flows: u16,
    pub(crate) unordered: bool,
    pub(crate) nagle: bool,
    /// Whether the sender passes messages without a copy.
    #[serde(default)]
    pub(crate) no_copy: bool,
    /// Whether both sides use the byte stream of stream 0.
    #[serde(default)]
    pub(crate) byte_stream: bool,
    /// Whether the receiver measures pauses between received data.
    #[serde(default)]
    pub(crate) pauses: bool,
    /// Bits per second in each direction, by all flows together; `None`: as fast as possible.
    pub(crate) bits_per_second: Option<u64>,
}

impl Parameters {
    /// Checks every range; both sides do.
    ///
    /// # Errors
    /// Describes the invalid parameter.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let check = |ok: bool, wrong: &str| if ok { Ok(()) } else { Err(wrong.to_owned()) };
        match self.length {
            Length::Seconds(seconds) => {
                check(
                    seconds > 0.0 && seconds <= SECONDS_MAX,
                    "the duration must be more than 0 and at most 86400 s",
                )?;
            }
            Length::Bytes(bytes) => {
                check(bytes >= u64::from(self.flows), "at least one byte is required for each association")?;
                check(bytes <= 1 << 60, "at most 2^60 bytes can be sent")?;
                check(self.omit_seconds == 0.0, "a warm-up requires a duration, not a number of bytes")?;
            }
        }
        check((0.0..=3600.0).contains(&self.omit_seconds), "the warm-up must be between 0 and 3600 s")?;
        check((1..=SIZE_MAX).contains(&self.message_bytes), "messages must have 1 byte to 16 MiB")?;
        check(self.streams >= 1, "there must be at least one stream")?;
        check((1..=FLOWS_MAX).contains(&self.flows), "there must be 1 to 256 associations")?;
        let turn =
            "one message of every association together must be at most 1 GiB: use fewer or smaller ones";
        check(self.turn_mib() <= TURN_MIB_MAX, turn)?;
        let gap =
            self.message_bits() * f64::from(self.flows) / self.bits_per_second.unwrap_or(u64::MAX) as f64;
        check(gap <= GAP_SECONDS_MAX, "the rate must let every association send once in 10 s")
    }

    /// Returns the total of one message of every flow in MiB, each rounded up.
    pub(crate) fn turn_mib(&self) -> u32 {
        u32::from(self.flows).saturating_mul(self.message_bytes.div_ceil(1 << 20))
    }

    /// Returns the length of one message in bits.
    pub(crate) fn message_bits(&self) -> f64 {
        f64::from(self.message_bytes) * 8.0
    }

    pub(crate) fn sends(&self, role: Role) -> bool {
        match self.direction {
            Direction::Up => role == Role::Client,
            Direction::Down => role == Role::Server,
            Direction::Both => true,
        }
    }

    pub(crate) fn receives(&self, role: Role) -> bool {
        let other = if role == Role::Client { Role::Server } else { Role::Client };
        self.sends(other)
    }

    /// Returns the number of bytes that one flow sends, if a number of bytes ends the test. The first flows
    /// take the remainder.
    pub(crate) fn bytes_of_flow(&self, flow: u16) -> Option<u64> {
        match self.length {
            Length::Seconds(_) => None,
            Length::Bytes(bytes) => {
                let flows = u64::from(self.flows.max(1));
                Some(bytes / flows + u64::from(u64::from(flow) < bytes % flows))
            }
        }
    }
}

/// A message of the control exchange.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Test(Parameters),
    Accepted {
        token: String,
    },
    Refused {
        reason: String,
    },
    /// Request to carry a flow; `attempt` counts from 0.
    Join {
        token: String,
        flow: u16,
        attempt: u8,
    },
    Joined {},
    /// The association reached a shard that carries another flow.
    Elsewhere {},
    Begin {},
    Stop {},
    Finished(SideReport),
}

/// The figures of one side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SideReport {
    pub(crate) cpu: CpuReport,
    /// Number of shards.
    pub(crate) shards: u16,
    /// Name of the congestion controller.
    pub(crate) congestion: Option<String>,
    /// Reports by number of the flow.
    pub(crate) flows: Vec<FlowReport>,
    /// Reports by number of the shard; empty with TCP.
    pub(crate) by_shard: Vec<ShardReport>,
}

/// The counters of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ShardReport {
    pub(crate) packets_sent: u64,
    pub(crate) packets_received: u64,
    /// Packets that arrived here and were handed to other shards.
    pub(crate) handed_over: u64,
    /// Number of times that a task found the shard's lock held by another task that uses the shard.
    pub(crate) lock_waits: u64,
    /// Number of times that one task waited for another where one of them only read figures, as this program
    /// does ten times a second.
    pub(crate) look_waits: u64,
    /// INITs that were read, and INITs that exceeded the limit and were dropped unread.
    pub(crate) inits: u64,
    pub(crate) inits_shed: u64,
}

impl ShardReport {
    /// Returns the counts added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            packets_sent: self.packets_sent.saturating_sub(before.packets_sent),
            packets_received: self.packets_received.saturating_sub(before.packets_received),
            handed_over: self.handed_over.saturating_sub(before.handed_over),
            lock_waits: self.lock_waits.saturating_sub(before.lock_waits),
            look_waits: self.look_waits.saturating_sub(before.look_waits),
            inits: self.inits.saturating_sub(before.inits),
            inits_shed: self.inits_shed.saturating_sub(before.inits_shed),
        }
    }
}

/// Processor time of a process, and the wall time in which it was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CpuReport {
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) wall_seconds: f64,
}

/// The traffic in one direction of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Passed {
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
    /// Messages of SCTP, writes of TCP; 0 for reads of TCP.
    pub(crate) messages: u64,
}

/// The data received when the time to send was over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct InTime {
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
}

/// One flow as seen by one side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FlowReport {
    pub(crate) sent: Passed,
    pub(crate) received: Passed,
    pub(crate) figures: Figures,
    /// Round-trip times sampled during the test.
    pub(crate) rtt_us: Option<Spread>,
    pub(crate) cwnd_bytes_max: Option<u64>,
    /// Longest time without received data, in seconds.
    pub(crate) longest_pause: Option<f64>,
    /// Data received when the time to send was over. Excludes data that was still buffered then and arrived
    /// later.
    pub(crate) in_time: Option<InTime>,
}

/// Minimum, mean and maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) mean: f64,
    pub(crate) max: f64,
}

/// State and counters of an association or connection as its transport reports them. Counters count since the
/// end of the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    /// Retransmitted DATA chunks, or TCP segments.
    pub(crate) retransmissions: Option<u64>,
    pub(crate) fast_recoveries: Option<u64>,
    pub(crate) timeouts: Option<u64>,
    pub(crate) packets_sent: Option<u64>,
    pub(crate) packets_received: Option<u64>,
    pub(crate) chunks_sent: Option<u64>,
    pub(crate) sacks_sent: Option<u64>,
    /// Whether ECN was agreed on (SCTP).
    pub(crate) ecn: Option<bool>,
    /// Packets with data that arrived marked.
    pub(crate) marks_received: Option<u64>,
    /// Marks that the other side reported and that were answered.
    pub(crate) marks_answered: Option<u64>,
    pub(crate) rtt_us: Option<f64>,
    pub(crate) rttvar_us: Option<f64>,
    pub(crate) cwnd_bytes: Option<u64>,
    pub(crate) in_flight_bytes: Option<u64>,
    /// Bytes accepted from the application and not acknowledged yet.
    pub(crate) send_queue_bytes: Option<u64>,
    /// Bytes that have arrived and were not read yet.
    pub(crate) receive_queue_bytes: Option<u64>,
    /// The peer's receive window in bytes.
    pub(crate) peer_window_bytes: Option<u64>,
    pub(crate) path_mtu_bytes: Option<u64>,
}

impl Figures {
    /// Returns the figures with counters since an earlier sample.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        let less = |now: &mut Option<u64>, before: Option<u64>| {
            *now = now.map(|now| now.saturating_sub(before.unwrap_or(0)));
        };
        less(&mut self.retransmissions, earlier.retransmissions);
        less(&mut self.fast_recoveries, earlier.fast_recoveries);
        less(&mut self.timeouts, earlier.timeouts);
        less(&mut self.packets_sent, earlier.packets_sent);
        less(&mut self.packets_received, earlier.packets_received);
        less(&mut self.chunks_sent, earlier.chunks_sent);
        less(&mut self.sacks_sent, earlier.sacks_sent);
        less(&mut self.marks_received, earlier.marks_received);
        less(&mut self.marks_answered, earlier.marks_answered);
        self
    }
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    strandline_perf: u32,
    #[serde(flatten)]
    message: Message,
}

#[derive(Deserialize)]
struct Version {
    strandline_perf: u32,
}

/// Encodes a message.
pub(crate) fn encode(message: &Message) -> anyhow::Result<Vec<u8>> {
    let envelope = Envelope { strandline_perf: VERSION, message: message.clone() };
    Ok(serde_json::to_vec(&envelope)?)
}

/// Decodes a message.
///
/// # Errors
/// Describes the error for the peer.
pub(crate) fn decode(bytes: &[u8]) -> Result<Message, String> {
    if bytes.len() > CONTROL_BYTES_MAX {
        return Err(format!("a control message has at most {CONTROL_BYTES_MAX} bytes"));
    }
    let Version { strandline_perf: version } =
        serde_json::from_slice(bytes).map_err(|_| "the peer is not `strandline perf`".to_owned())?;
    if version != VERSION {
        return Err(format!(
            "the peer speaks protocol version {version} of `strandline perf`, this side version {VERSION}: install the \
             same version on both sides"
        ));
    }
    let envelope: Envelope =
        serde_json::from_slice(bytes).map_err(|error| format!("malformed control message: {error}"))?;
    Ok(envelope.message)
}

#[cfg(test)]
pub(crate) mod tests;
