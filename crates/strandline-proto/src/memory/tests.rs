use super::*;

const LIMIT: u64 = 1 << 30;

fn sharing(account: &Arc<MemoryAccount>, limit: u64) -> Memory {
    Memory::new(Some(Arc::clone(account)), limit, limit)
}

#[test]
fn what_one_holds_counts_for_all() {
    let account = Arc::default();
    let (mut one, mut other) = (sharing(&account, LIMIT), sharing(&account, LIMIT));
    for _ in 0..10 {
        one.on_received(0, 100 << 20);
        other.on_given(1 << 20);
    }
    assert_eq!((one.received(), one.received_in_all()), (1000 << 20, 1000 << 20));
    assert_eq!((other.received(), other.received_in_all()), (0, 1000 << 20));
    assert_eq!((other.sent(), one.sent_in_all()), (10 << 20, 10 << 20));
    one.on_read(900 << 20);
    assert_eq!(other.received_in_all(), 100 << 20);
    one.on_association();
    assert_eq!((other.associations(), other.associations_in_all()), (0, 1));
    drop(one);
    assert_eq!((other.received_in_all(), other.associations_in_all()), (0, 0));
}

#[test]
fn what_was_taken_counts_for_all() {
    let account: Arc<MemoryAccount> = Arc::default();
    let mut one = sharing(&account, LIMIT);
    let (taken, other) =
        (TakenBytes::new(Arc::clone(&account), LIMIT), TakenBytes::new(Arc::clone(&account), LIMIT));
    one.on_association();
    one.on_association();
    one.on_received(0, 600 << 20);
    taken.add(300 << 20);
    taken.add(100);
    assert_eq!((taken.bytes(), other.bytes()), ((300 << 20) + 100, 0));
    assert_eq!((account.received(), one.received_in_all()), (900 << 20, 900 << 20), "to a step");
    assert!(!taken.is_full());
    let held = other.hold(124 << 20);
    assert!(taken.is_full() && other.is_full());
    assert_eq!(taken.share(), LIMIT / 4);
    drop(held);
    assert!(!taken.is_full());
    taken.remove(100 << 20);
    assert_eq!(one.received_in_all(), (800 << 20) + 100);
    drop(taken);
    assert_eq!(one.received_in_all(), 600 << 20);
}

/// An endpoint's own share is exact, and that of others is exact to a step, which is small for small limits.
#[test]
fn sum_is_exact_to_a_step() {
    for (limit, step) in [(LIMIT, STEP_MAX), (1 << 20, 256), (1, 1)] {
        let account = Arc::default();
        let (mut one, other) = (sharing(&account, limit), sharing(&account, limit));
        for bytes in 1..2000_u64 {
            one.on_received(0, 7);
            assert_eq!(one.received_in_all(), 7 * bytes);
            assert!(other.received_in_all().abs_diff(7 * bytes) < step);
        }
        for bytes in (0..1999_u64).rev() {
            one.on_received(7, 0);
            assert_eq!(one.received_in_all(), 7 * bytes);
            assert!(other.received_in_all().abs_diff(7 * bytes) < step);
        }
    }
}

/// Concurrent changes of several threads are not lost.
#[test]
fn many_at_the_same_time() {
    let account = Arc::default();
    let held: Vec<u64> = std::thread::scope(|scope| {
        let work = |number: u32| {
            let mut memory = sharing(&account, 1 << 20);
            move || {
                for round in 0..20_000_u32 {
                    memory.on_received(0, 1 + (round * 31 + number) % 1000);
                    memory.on_read(round % 900);
                }
                memory
            }
        };
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(work(number))).collect();
        let done: Vec<Memory> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let sum: u64 = done.iter().map(Memory::received).sum();
        let seen: Vec<u64> = done.iter().map(Memory::received_in_all).collect();
        assert!(seen.iter().all(|seen| seen.abs_diff(sum) <= 3 * 256), "{seen:?} {sum}");
        seen
    });
    assert_eq!(held.len(), 4);
    assert_eq!(account.received.load(Relaxed), 0, "given back by those that ended");
}

/// Another thread may publish that bytes were read before it publishes that they were taken.
#[test]
fn removal_counted_first_is_not_a_full_memory() {
    let account: Arc<MemoryAccount> = Arc::default();
    let one = sharing(&account, LIMIT);
    account.received.fetch_sub(100, Relaxed);
    assert_eq!((account.received(), one.received_in_all()), (0, 0));
}
