use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

thread_local! {
    /// Number of runs looked at.
    pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
}

/// Returns how many runs `action` looks at.
fn looks(action: impl FnOnce()) -> usize {
    let before = LOOKS.get();
    action();
    LOOKS.get() - before
}

fn block(start: u16, end: u16) -> GapBlock {
    GapBlock { start, end }
}

fn indices<'a>(runs: impl IntoIterator<Item = &'a Run>) -> BTreeSet<u16> {
    runs.into_iter().flat_map(|run| run.start..=run.end).collect()
}

/// Processes a SACK with the Cumulative TSN Ack of the one before, as the send window does. Returns the number of
/// chunks that it adds.
fn add(gaps: &mut Gaps, blocks: &[GapBlock]) -> usize {
    gaps.replace(blocks.iter().copied(), 0, true, true);
    let added = gaps.added().map(|run| usize::from(run.end - run.start) + 1).sum();
    assert_eq!(gaps.withdrawn().count(), 0);
    assert!(gaps.differ());
    let last = gaps.last().unwrap_or(0);
    assert!(gaps.holes(last.saturating_sub(1)..last + 1).count() <= 2);
    gaps.end_report();
    added
}

/// A hostile peer reports every second chunk. Each further SACK costs what its blocks do, not what is known.
#[test]
fn a_sack_costs_what_its_blocks_do() {
    let mut gaps = Gaps::default();
    let many: Vec<_> = (1..=16_000).map(|number| block(4 * number, 4 * number)).collect();
    add(&mut gaps, &many[..8000]);
    add(&mut gaps, &many[8000..]);
    assert_eq!(gaps.runs().len(), 16_000);
    // At the end, at the beginning, in the middle; alone, next to a known one, over several.
    for number in 0..1000 {
        let place = [16_000 - number, 1 + number, 8000 + number][usize::from(number % 3)];
        let mut added = 0;
        let looked = looks(|| added = add(&mut gaps, &[block(4 * place + 2, 4 * place + 2)]));
        assert!(looked < 200, "{looked} runs looked at for {added} chunks");
        let looked = looks(|| added += add(&mut gaps, &[block(4 * place - 1, 4 * place + 1)]));
        assert_eq!(added, 3);
        assert!(looked < 200, "{looked} runs looked at");
    }
    // Twenty blocks at once, all over the list.
    let scattered: Vec<_> =
        (0..20).map(|number| block(4 * 700 * number + 2403, 4 * 700 * number + 2403)).collect();
    let mut added = 0;
    let looked = looks(|| added = add(&mut gaps, &scattered));
    assert!(added > 15 && looked < 20 * 200, "{added}: {looked}");
}

proptest! {
    /// Whatever SACKs report, in any order: the gaps are those of a set of indices.
    #[test]
    fn gaps_are_a_set(
        sacks in proptest::collection::vec(
            (
                proptest::collection::vec((1_u16..200, 0_u16..12), 0..40),
                prop_oneof![2 => Just(0_u16), 1 => 1_u16..20],
                prop_oneof![2 => Just(0_usize), 1 => 1_usize..20],
                any::<bool>(),
                any::<bool>(),
            ),
            1..30,
        )
    ) {
        let (mut gaps, mut known) = (Gaps::default(), BTreeSet::<u16>::new());
        for (pairs, steps, others, may_be_cut, overtaken) in sacks {
            gaps.advance(usize::from(steps));
            known = known.iter().filter_map(|index| index.checked_sub(steps)).collect();
            prop_assert_eq!(&indices(gaps.runs()), &known);
            let blocks = pairs.iter().map(|&(start, len)| block(start, start + len));
            let new: BTreeSet<_> = blocks.clone().flat_map(|block| block.start - 1..block.end).collect();
            let may_be_old = overtaken && steps == 0;
            let adds = may_be_old && known.first().is_some_and(|first| *first > 0);
            let number = pairs.len() + others;
            let kept = if adds {
                0
            } else if may_be_cut && number >= MAY_BE_ALL {
                new.last().copied().unwrap_or(0)
            } else {
                u16::MAX
            };
            let now: BTreeSet<u16> = new.iter().chain(known.range(kept..)).copied().collect();
            gaps.replace(blocks, others, may_be_cut, may_be_old);
            prop_assert_eq!(&indices(gaps.runs()), &now);
            let (added, withdrawn): (Vec<_>, Vec<_>) = (gaps.added().collect(), gaps.withdrawn().collect());
            prop_assert_eq!(indices(&added), now.difference(&known).copied().collect());
            prop_assert_eq!(indices(&withdrawn), known.difference(&now).copied().collect());
            prop_assert!(gaps.differ() || now == known);
            let runs = gaps.runs();
            prop_assert!(runs.windows(2).all(|pair| pair[0].end + 1 < pair[1].start));
            let holes: BTreeSet<_> = gaps.holes(30..150).flatten().collect();
            let expected = (30..150).filter(|index| !now.contains(&(*index as u16))).collect();
            prop_assert_eq!(holes, expected);
            gaps.end_report();
            known = now;
        }
    }
}
