//! Counters of a side's shards during a test, which show that each took its share and that they didn't
//! contend.

use strandline::Stack;

use super::protocol::ShardReport;

/// The shards of a side.
#[derive(Debug)]
pub(crate) struct Shards {
    /// Number of threads.
    pub(crate) count: u16,
    /// The stacks of the shards; empty with TCP.
    stacks: Vec<Stack>,
    begin: Vec<ShardReport>,
}

impl Shards {
    /// Starts counting.
    pub(crate) fn new(count: u16, stacks: Vec<Stack>) -> Self {
        let begin = counted(&stacks);
        Self { count, stacks, begin }
    }

    /// Returns the counts of each shard since the start, by number. Each of a server's concurrent tests
    /// includes the counts of all.
    pub(crate) fn report(&self) -> Vec<ShardReport> {
        let mut now = counted(&self.stacks);
        for (shard, begin) in now.iter_mut().zip(&self.begin) {
            *shard = shard.since(begin);
        }
        now
    }
}

fn counted(stacks: &[Stack]) -> Vec<ShardReport> {
    let mut shards: Vec<ShardReport> = Vec::new();
    for stack in stacks {
        let stats = stack.shard_stats();
        shards.resize(shards.len().max(stats.len()), ShardReport::default());
        for (shard, stats) in shards.iter_mut().zip(&stats) {
            shard.packets_sent += stats.packets_sent;
            shard.packets_received += stats.packets_received;
            shard.handed_over += stats.handed_over;
            shard.lock_waits += stats.lock_waits;
            shard.look_waits += stats.look_waits;
            shard.inits += stats.inits;
            shard.inits_shed += stats.inits_shed;
        }
    }
    shards
}
