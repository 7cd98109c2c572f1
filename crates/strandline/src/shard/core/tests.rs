#![allow(clippy::unwrap_used)]

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::Stack;
use crate::memory::Network;

fn shards(count: usize) -> (Stack, Vec<Arc<Shard>>) {
    let stack = Stack::builder().shards(count).memory(&Network::new(), [[10, 0, 0, 1].into()]).unwrap();
    let shards = stack.inner.shards.clone();
    (stack, shards)
}

/// Lets a thread `want` the lock while `hold` holds it, until it had to wait: whether it arrives in time
/// depends on the scheduler.
fn collide(shard: &Arc<Shard>, hold: fn(&Shard, &mut dyn FnMut()), want: fn(&Shard)) {
    let before = shard.lock_waits();
    while shard.lock_waits() == before {
        let mut thread = None;
        hold(shard, &mut || {
            let (other, (about_to, comes)) = (Arc::clone(shard), mpsc::channel());
            thread = Some(thread::spawn(move || {
                about_to.send(()).unwrap();
                want(&other);
            }));
            comes.recv().unwrap();
            (0..100).for_each(|_| thread::yield_now());
        });
        thread.unwrap().join().unwrap();
    }
}

#[tokio::test]
async fn who_only_looks_is_counted_apart() {
    let (_stack, shards) = shards(1);
    let shard = &shards[0];
    let work = |shard: &Shard| drop(shard.lock());
    let look = |shard: &Shard| drop(shard.look());
    let working = |shard: &Shard, meanwhile: &mut dyn FnMut()| {
        let _held = shard.lock();
        meanwhile();
    };
    let looking = |shard: &Shard, meanwhile: &mut dyn FnMut()| {
        let _held = shard.look();
        meanwhile();
    };
    look(shard);
    work(shard);
    assert_eq!(shard.lock_waits(), (0, 0), "nobody was in the way");
    collide(shard, working, look);
    assert_eq!(shard.lock_waits(), (0, 1));
    collide(shard, looking, work);
    assert_eq!(shard.lock_waits(), (0, 2));
    collide(shard, working, work);
    assert_eq!(shard.lock_waits(), (1, 2));
}

#[tokio::test]
async fn no_two_shards_share_a_cache_line() {
    let (_stack, shards) = shards(4);
    for shard in &shards {
        assert_eq!(Arc::as_ptr(shard).addr() % 128, 0);
    }
}
