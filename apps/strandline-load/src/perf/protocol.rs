//! What the two sides of a test tell each other, in JSON, and the limits of it. The control exchange:
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
//! can say why.

use serde::{Deserialize, Serialize};

/// Version of this exchange.
pub(crate) const VERSION: u32 = 1;
/// Bytes that a message of the control exchange has at most. The figures of 256 flows take 256 KB at most.
pub(crate) const CONTROL_BYTES_MAX: usize = 320 << 10;
/// Associations or TCP connections of a test at most.
pub(crate) const FLOWS_MAX: u16 = 256;
/// Attempts of a flow to come to its shard; with the last one it stays where it is. Which shard an association comes to
/// is a matter of chance.
pub(crate) const ATTEMPTS_MAX: u8 = 32;
/// Bytes of a message of the test at most.
pub(crate) const SIZE_MAX: u32 = 16 << 20;
/// MiB that the messages of one turn of all flows have at most: each may wait whole in a send buffer.
pub(crate) const TURN_MIB_MAX: u32 = 1024;
/// Seconds that a test takes at most.
pub(crate) const SECONDS_MAX: f64 = 86_400.0;
/// Seconds between two messages of a paced flow at most: less than what counts as a stalled test.
const GAP_SECONDS_MAX: f64 = 10.0;

/// Where the messages go.
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

/// Which side of the test this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Client,
    Server,
}

/// When a test ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Length {
    Seconds(f64),
    /// In each direction, by all flows together.
    Bytes(u64),
}

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Parameters {
    pub(crate) direction: Direction,
    pub(crate) length: Length,
    /// Seconds at the start that don't count.
    pub(crate) omit_seconds: f64,
    pub(crate) message_bytes: u32,
    /// Streams of each association that the messages go round.
    pub(crate) streams: u16,
    /// Associations or TCP connections.
    pub(crate) flows: u16,
    pub(crate) unordered: bool,
    pub(crate) nagle: bool,
    /// The sender hands messages over without a copy.
    #[serde(default)]
    pub(crate) no_copy: bool,
    /// The receiver takes the time between what comes.
    #[serde(default)]
    pub(crate) pauses: bool,
    /// In each direction, by all flows together; none: as fast as it goes.
    pub(crate) bits_per_second: Option<u64>,
}

impl Parameters {
    /// Checks every range; both sides do.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let check = |ok: bool, wrong: &str| if ok { Ok(()) } else { Err(wrong.to_owned()) };
        match self.length {
            Length::Seconds(seconds) => {
                check(
                    seconds > 0.0 && seconds <= SECONDS_MAX,
                    "the duration must be more than 0 and at most 86,400 s",
                )?;
            }
            Length::Bytes(bytes) => {
                check(
                    bytes >= u64::from(self.flows),
                    "there must be at least one byte for each association",
                )?;
                check(bytes <= 1 << 60, "at most 2^60 bytes can be sent")?;
                check(self.omit_seconds == 0.0, "a warm-up can't be left out of a number of bytes")?;
            }
        }
        check((0.0..=3600.0).contains(&self.omit_seconds), "the warm-up must be between 0 and 3,600 s")?;
        check((1..=SIZE_MAX).contains(&self.message_bytes), "messages must have 1 byte to 16 MiB")?;
        check(self.streams >= 1, "there must be at least one stream")?;
        check((1..=FLOWS_MAX).contains(&self.flows), "there must be 1 to 256 associations")?;
        let turn =
            "the messages of all associations must have at most 1 GiB together: make them fewer or smaller";
        check(self.turn_mib() <= TURN_MIB_MAX, turn)?;
        let gap =
            self.message_bits() * f64::from(self.flows) / self.bits_per_second.unwrap_or(u64::MAX) as f64;
        check(gap <= GAP_SECONDS_MAX, "the rate must let every association send once in 10 s")
    }

    /// MiB that one message of each flow has together, each rounded up.
    pub(crate) fn turn_mib(&self) -> u32 {
        u32::from(self.flows).saturating_mul(self.message_bytes.div_ceil(1 << 20))
    }

    /// Bits of one message.
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

    /// Bytes that one flow is to send, if that is how the test ends: the first ones take what is left over.
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
    /// `attempt` counts from 0.
    Join {
        token: String,
        flow: u16,
        attempt: u8,
    },
    Joined {},
    /// The association came to a shard that has another flow to carry.
    Elsewhere {},
    Begin {},
    Stop {},
    Finished(SideReport),
}

/// What one side found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SideReport {
    pub(crate) cpu: CpuReport,
    /// Over how many shards it spread.
    pub(crate) shards: u16,
    /// The congestion controller.
    pub(crate) congestion: Option<String>,
    /// By number of the flow.
    pub(crate) flows: Vec<FlowReport>,
    /// By number of the shard; none with TCP.
    pub(crate) by_shard: Vec<ShardReport>,
}

/// What a shard counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ShardReport {
    pub(crate) packets_sent: u64,
    pub(crate) packets_received: u64,
    /// Packets that came here and were given to other shards.
    pub(crate) handed_over: u64,
    /// How often a task found the shard's lock taken by another that uses it.
    pub(crate) lock_waits: u64,
    /// How often one was in the way of the other of whom one only looked at figures, as this program does ten times a
    /// second.
    pub(crate) look_waits: u64,
    /// INITs that were read, and those that were too many and dropped unread.
    pub(crate) inits: u64,
    pub(crate) inits_shed: u64,
}

impl ShardReport {
    /// What was added since `before`.
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

/// What passed in one direction of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Passed {
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
    /// Messages of SCTP, writes of TCP; 0 where TCP is read.
    pub(crate) messages: u64,
}

/// What had come when the time to send was over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct InTime {
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
}

/// One flow, as one side saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FlowReport {
    pub(crate) sent: Passed,
    pub(crate) received: Passed,
    pub(crate) figures: Figures,
    /// Of the round trip times seen at each look.
    pub(crate) rtt_us: Option<Spread>,
    pub(crate) cwnd_bytes_max: Option<u64>,
    /// The longest time in which nothing came, seconds.
    pub(crate) longest_pause: Option<f64>,
    /// What had come when the time to send was over: what waited in buffers then, and came later, isn't in it.
    pub(crate) in_time: Option<InTime>,
}

/// Least, mean and most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) mean: f64,
    pub(crate) max: f64,
}

/// State and counters of an association or connection: what its transport tells. Counters count since the end of the
/// warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Figures {
    /// DATA chunks, or TCP segments, sent again.
    pub(crate) retransmissions: Option<u64>,
    pub(crate) fast_recoveries: Option<u64>,
    pub(crate) timeouts: Option<u64>,
    pub(crate) packets_sent: Option<u64>,
    pub(crate) packets_received: Option<u64>,
    pub(crate) chunks_sent: Option<u64>,
    pub(crate) sacks_sent: Option<u64>,
    /// ECN was agreed on (SCTP).
    pub(crate) ecn: Option<bool>,
    /// Packets with data that came marked.
    pub(crate) marks_received: Option<u64>,
    /// Marks that the other side told of and that were answered.
    pub(crate) marks_answered: Option<u64>,
    pub(crate) rtt_us: Option<f64>,
    pub(crate) rttvar_us: Option<f64>,
    pub(crate) cwnd_bytes: Option<u64>,
    pub(crate) in_flight_bytes: Option<u64>,
    /// Taken from the application and not acknowledged yet.
    pub(crate) send_queue_bytes: Option<u64>,
    /// Arrived and not read yet.
    pub(crate) receive_queue_bytes: Option<u64>,
    /// The peer's receive window.
    pub(crate) peer_window_bytes: Option<u64>,
    pub(crate) path_mtu_bytes: Option<u64>,
}

impl Figures {
    /// With the counters counted since an earlier look.
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

/// The bytes of a message.
pub(crate) fn encode(message: &Message) -> anyhow::Result<Vec<u8>> {
    let envelope = Envelope { strandline_perf: VERSION, message: message.clone() };
    Ok(serde_json::to_vec(&envelope)?)
}

/// The message in these bytes.
///
/// # Errors
/// Says what is wrong with them, for the peer to read.
pub(crate) fn decode(bytes: &[u8]) -> Result<Message, String> {
    if bytes.len() > CONTROL_BYTES_MAX {
        return Err(format!("a control message has at most {CONTROL_BYTES_MAX} bytes"));
    }
    let Version { strandline_perf: version } =
        serde_json::from_slice(bytes).map_err(|_| "this is not `strandline perf`".to_owned())?;
    if version != VERSION {
        return Err(format!(
            "the other side speaks version {version} of `strandline perf`, this one version {VERSION}: install the \
             same version on both sides"
        ));
    }
    let envelope: Envelope = serde_json::from_slice(bytes)
        .map_err(|error| format!("a control message makes no sense: {error}"))?;
    Ok(envelope.message)
}

#[cfg(test)]
pub(crate) mod tests;
