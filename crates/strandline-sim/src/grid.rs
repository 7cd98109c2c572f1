//! The grid of conditions, round-trip times and rates that examples measure in virtual time: those of the
//! laboratory's plans of goodput and completion.

use core::time::Duration;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use strandline_netem::{LinkConfig, Loss, Reordering};

/// A condition of the network.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    /// The name of the condition.
    pub name: &'static str,
    /// How packets are lost.
    pub loss: Loss,
    /// Share of the packets that are delayed by up to half a round trip, from 0 to 1.
    pub reordered: f64,
}

/// Returns the ten conditions of the grid.
pub fn conditions() -> Vec<Condition> {
    let lossy = |name, loss| Condition { name, loss, reordered: 0.0 };
    vec![
        lossy("none", Loss::None),
        lossy("every 10th", Loss::EveryNth(10)),
        lossy("random 0.1%", Loss::Random(0.001)),
        lossy("random 0.5%", Loss::Random(0.005)),
        lossy("random 1%", Loss::Random(0.01)),
        lossy("random 2%", Loss::Random(0.02)),
        lossy("random 5%", Loss::Random(0.05)),
        lossy("bursts of 3", Loss::bursts(297.0, 3.0)),
        lossy("bursts of 10", Loss::bursts(990.0, 10.0)),
        Condition { name: "1% reordered", loss: Loss::None, reordered: 0.01 },
    ]
}

/// A cell of the grid.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// The condition in the direction of the data.
    pub condition: Condition,
    /// Round-trip time in milliseconds.
    pub rtt_ms: f64,
    /// Rate in Mbit/s.
    pub rate_mbps: u64,
}

impl Cell {
    /// Returns one direction of the link, with a queue of one bandwidth-delay product, at least `queue_min` bytes.
    pub fn link(&self, queue_min: usize, lossy: bool) -> LinkConfig {
        let delay = Duration::from_secs_f64(self.rtt_ms / 2000.0);
        let rate_bps = self.rate_mbps * 1_000_000;
        let bdp = (rate_bps as f64 / 8.0 * self.rtt_ms / 1000.0) as usize;
        let queue_bytes_max = bdp.max(queue_min);
        let mut link = LinkConfig { delay, rate_bps, queue_bytes_max, ..LinkConfig::default() };
        if lossy {
            link.loss = self.condition.loss;
            link.reordering = Reordering { probability: self.condition.reordered, extra_delay_max: delay };
        }
        link
    }
}

/// Returns the cells of all conditions, or of the one with this name: for each condition and rate one of each
/// round-trip time, in this order.
pub fn cells(only: Option<&str>, rates_mbps: &[u64], rtts_ms: &[f64]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for condition in conditions() {
        if only.is_some_and(|only| only != condition.name) {
            continue;
        }
        for &rate_mbps in rates_mbps {
            cells.extend(rtts_ms.iter().map(|&rtt_ms| Cell { condition, rtt_ms, rate_mbps }));
        }
    }
    cells
}

/// Runs `measure` on each cell, on all processors. Returns the results in the order of the cells.
pub fn measure_all<T: Send>(cells: &[Cell], measure: impl Fn(&Cell) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(at) else { return };
                    let found = measure(cell);
                    results.lock().expect("no measurement panics").push((at, found));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no measurement panics");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, found)| found).collect()
}
