//! The wheel compared with a sorted map that does the same slowly.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Schedule { key: u32, after: u64 },
    Cancel { key: u32 },
    Crowd { keys: u32, after: u64, apart: u64 },
    CancelEvery { nth: u32 },
    Advance { by: u64 },
    Sleep,
    Oversleep { by: u64 },
}

/// Number of keys of which many have a deadline at a time: a slot with more than a slice of them is a crowd.
const KEYS: u32 = 1500;

fn distance() -> impl Strategy<Value = u64> {
    // Every level, and beyond all of them.
    (0_u32..54, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits))
}

fn few() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0_u32..40, distance()).prop_map(|(key, after)| Op::Schedule { key, after }),
        1 => (0_u32..40).prop_map(|key| Op::Cancel { key }),
        2 => distance().prop_map(|by| Op::Advance { by }),
        2 => Just(Op::Sleep),
    ]
}

/// From a tick to ten hours away.
fn hours() -> impl Strategy<Value = u64> {
    (20_u32..45, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits))
}

/// From all at once to spread over a quarter of an hour.
fn crowd() -> impl Strategy<Value = Op> {
    let apart = (0_u32..30, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits));
    (KEYS / 4..KEYS, hours(), apart).prop_map(|(keys, after, apart)| Op::Crowd { keys, after, apart })
}

fn many() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => crowd(),
        1 => (0..KEYS, hours()).prop_map(|(key, after)| Op::Schedule { key, after }),
        1 => (1_u32..5).prop_map(|nth| Op::CancelEvery { nth }),
        1 => hours().prop_map(|by| Op::Advance { by }),
        8 => Just(Op::Sleep),
        4 => (0_u64..1 << 28).prop_map(|by| Op::Oversleep { by }),
    ]
}

/// The wheel, the model, and the time in nanoseconds.
struct Pair {
    wheel: TimerWheel,
    model: BTreeMap<u32, u64>,
    now: u64,
}

impl Pair {
    fn new(now: u64) -> Self {
        Self { wheel: TimerWheel::new(Time::from_nanos(now)), model: BTreeMap::new(), now }
    }

    /// A few deadlines in a slot are a crowd already, so that a test sees hundreds of slices.
    fn with_slices_of(slice: u32, now: u64) -> Self {
        let mut pair = Self::new(now);
        pair.wheel.crowds = Crowds::new(slice);
        pair
    }

    fn schedule(&mut self, key: u32, after: u64) {
        let at = self.now + after;
        self.wheel.schedule(key, Time::from_nanos(at));
        self.model.insert(key, at.max((self.now / TICK + 1) * TICK));
    }

    fn cancel(&mut self, key: u32) {
        self.wheel.cancel(key);
        self.model.remove(&key);
    }

    fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Schedule { key, after } => self.schedule(key, after),
            Op::Cancel { key } => self.cancel(key),
            Op::Crowd { keys, after, apart } => {
                (0..keys).for_each(|key| self.schedule(key, after + u64::from(key) * apart));
            }
            Op::CancelEvery { nth } => (0..KEYS).step_by(nth as usize).for_each(|key| self.cancel(key)),
            Op::Advance { by } => self.now += by,
            Op::Sleep => self.jump(0)?,
            Op::Oversleep { by } => self.jump(by)?,
        }
        if matches!(op, Op::Advance { .. } | Op::Sleep | Op::Oversleep { .. }) {
            let due = |at: u64| at.div_ceil(TICK) <= self.now / TICK;
            let expected: Vec<u32> =
                self.model.iter().filter(|(_, at)| due(**at)).map(|(key, _)| *key).collect();
            prop_assert_eq!(pop_all(&mut self.wheel, Time::from_nanos(self.now)), expected);
            self.model.retain(|_, at| !due(*at));
        }
        self.check()
    }

    fn jump(&mut self, longer: u64) -> Result<(), TestCaseError> {
        if let Some(next) = self.wheel.next_deadline() {
            prop_assert!(next.as_nanos() > self.now, "a jump must make progress");
            self.now = next.as_nanos() + longer;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.wheel.len(), self.model.len());
        let some = (self.now >> TICK_SHIFT) as u32 % 29;
        for key in (0..40).chain((40 + some..KEYS).step_by(29)) {
            let expected = self.model.get(&key).map(|at| Time::from_nanos(*at));
            prop_assert_eq!(self.wheel.deadline(key), expected);
        }
        let first = self.model.values().map(|at| at.div_ceil(TICK) * TICK).min();
        let next = self.wheel.next_deadline();
        prop_assert_eq!(next.is_some(), first.is_some());
        if let (Some(next), Some(first)) = (next, first) {
            prop_assert!(next.as_nanos() <= first, "slept past an expiry");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_sorted_map(start in 0_u64..1 << 56, ops in proptest::collection::vec(few(), 1..200)) {
        let mut pair = Pair::new(start);
        for op in &ops {
            pair.step(op)?;
        }
    }

    /// Slots that are moved down in slices, at every stage.
    #[test]
    fn crowds_behave_like_a_sorted_map(
        start in 0_u64..1 << 56,
        slice in 1_u32..9,
        ops in proptest::collection::vec(many(), 0..40),
        last in crowd(),
    ) {
        let mut pair = Pair::with_slices_of(1 << slice, start);
        for op in &ops {
            pair.step(op)?;
        }
        pair.step(&last)?;
        // Nothing is left behind, however the rest of the time passes.
        while !pair.model.is_empty() {
            // Mostly in time, so that slices are taken one by one, and sometimes up to 256 ticks late.
            let random = pair.now.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            pair.step(&Op::Oversleep { by: if random.is_multiple_of(16) { random >> 4 } else { 0 } })?;
        }
    }
}
