//! What one side says at the end.

use serde::Serialize;
use strandline::Association;

use super::meter::Meter;
use super::usage::CpuTime;

/// The report of one side of a throughput test.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    side: &'static str,
    transport: &'static str,
    seconds: f64,
    bytes: u64,
    messages: u64,
    mbit_per_second: f64,
    messages_per_second: f64,
    cpu_user_seconds: f64,
    cpu_system_seconds: f64,
    cpu_seconds_per_gb: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) associations: Vec<AssociationReport>,
}

/// What an association was like at its end.
#[derive(Debug, Serialize)]
pub(crate) struct AssociationReport {
    peer: String,
    data_chunks_sent: u64,
    retransmissions: u32,
    fast_recoveries: u32,
    timeouts: u32,
    packets_sent: u64,
    packets_received: u64,
    sacks_sent: u32,
    srtt_us: Option<f64>,
    cwnd_bytes: u32,
    ssthresh_bytes: u32,
    peer_rwnd_bytes: u32,
    path_mtu: u16,
}

impl AssociationReport {
    /// Of an association that still exists.
    pub(crate) fn of(association: &Association) -> Option<Self> {
        let status = association.status()?;
        let path = association.paths().into_iter().find(|path| path.primary)?;
        let stats = status.stats;
        Some(Self {
            peer: path.address.to_string(),
            data_chunks_sent: stats.data_sent,
            retransmissions: stats.retransmissions,
            fast_recoveries: stats.fast_recoveries,
            timeouts: stats.timeouts,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            sacks_sent: stats.sacks_sent,
            srtt_us: path.srtt.map(|srtt| srtt.as_secs_f64() * 1e6),
            cwnd_bytes: path.cwnd,
            ssthresh_bytes: path.ssthresh,
            peer_rwnd_bytes: status.peer_rwnd,
            path_mtu: path.mtu,
        })
    }
}

impl Report {
    pub(crate) fn new(
        side: &'static str,
        transport: &'static str,
        meter: &Meter,
        seconds: f64,
        cpu: CpuTime,
    ) -> Self {
        let (bytes, messages) = (meter.bytes(), meter.messages());
        let per_second = 1.0 / seconds.max(1e-9);
        Self {
            side,
            transport,
            seconds,
            bytes,
            messages,
            mbit_per_second: bytes as f64 * 8.0 / 1e6 * per_second,
            messages_per_second: messages as f64 * per_second,
            cpu_user_seconds: cpu.user.as_secs_f64(),
            cpu_system_seconds: cpu.system.as_secs_f64(),
            cpu_seconds_per_gb: cpu.seconds() / (bytes.max(1) as f64 / 1e9),
            associations: Vec::new(),
        }
    }

    /// On standard output.
    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        println!(
            "{} {}: {} bytes in {:.2} s: {:.1} Mbit/s, {:.0} messages/s",
            self.transport,
            self.side,
            self.bytes,
            self.seconds,
            self.mbit_per_second,
            self.messages_per_second
        );
        println!(
            "processor: {:.2} s user, {:.2} s system: {:.3} s for each GB",
            self.cpu_user_seconds, self.cpu_system_seconds, self.cpu_seconds_per_gb
        );
        for each in &self.associations {
            println!(
                "{}: {} of {} chunks sent again ({} fast recoveries, {} time-outs), RTT {:.0} us, cwnd {} bytes, \
                 peer's window {} bytes, path MTU {}",
                each.peer,
                each.retransmissions,
                each.data_chunks_sent,
                each.fast_recoveries,
                each.timeouts,
                each.srtt_us.unwrap_or_default(),
                each.cwnd_bytes,
                each.peer_rwnd_bytes,
                each.path_mtu
            );
        }
        Ok(())
    }
}
