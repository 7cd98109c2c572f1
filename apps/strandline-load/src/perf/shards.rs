//! What the shards of a side counted during a test: that each took its part, and that they kept out of each other's way.

use strandline::Stack;

use super::protocol::ShardReport;

/// The shards of a side.
#[derive(Debug)]
pub(crate) struct Shards {
    /// Threads.
    pub(crate) count: u16,
    /// What they belong to; none with TCP.
    stacks: Vec<Stack>,
    begin: Vec<ShardReport>,
}

impl Shards {
    /// Counts from now on.
    pub(crate) fn new(count: u16, stacks: Vec<Stack>) -> Self {
        let begin = counted(&stacks);
        Self { count, stacks, begin }
    }

    /// What each shard counted since the begin, by number. Of a server's tests at the same time each has all.
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
