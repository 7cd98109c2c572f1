#![allow(clippy::unwrap_used)]

use super::*;

fn figure(engine: f64) -> Figure {
    Figure { name: "packet", each: Each { engine, checksum: 1.0, hashing: 0.0, library: 2.0 } }
}

fn before(baseline: &str) -> Baseline {
    Baseline::parse(&format!("rustc = \"1\"\n[instructions]\n[baseline]\n{baseline}")).unwrap()
}

/// Steps that are small enough each must not add up: the baseline outlasts every update.
#[test]
fn the_baseline_is_never_updated() {
    let mut held = before("packet = 1000.0\n");
    for (engine, holds) in [(1010.0, true), (1019.0, true), (1032.0, false), (1045.0, false)] {
        held = Baseline::parse(&written(&held, &[figure(engine)], "1")).unwrap();
        let (report, held_up) = compare(&held, &[figure(engine)], "1");
        assert_eq!((held_up, report.contains("BEYOND")), (holds, !holds), "{report}");
    }
    let gone = before("other = 1000.0\n");
    let gone = Baseline::parse(&written(&gone, &[figure(1.0)], "1")).unwrap();
    assert!(!compare(&gone, &[figure(1.0)], "1").1, "a figure of the baseline is no longer measured");
}

#[test]
fn only_what_got_dearer_fails() {
    let baseline = Baseline::parse(&written(&before(""), &[figure(1000.0)], "rustc 1")).unwrap();
    let holds = |engine| compare(&baseline, &[figure(engine)], "rustc 1").1;
    assert!(holds(1000.0) && holds(1019.0) && holds(500.0));
    assert!(!holds(1021.0));
    let (report, _) = compare(&baseline, &[figure(500.0)], "rustc 2");
    assert!(report.contains("bench-instructions-update") && report.contains("rustc 2"), "{report}");
}

#[test]
fn a_figure_without_counterpart_fails() {
    let nothing = before("");
    assert!(!compare(&nothing, &[figure(1.0)], "1").1);
    let text = "rustc = \"1\"\n[instructions]\n\"other\" = 1.0\npacket = 1.0\n[baseline]\n";
    let other = Baseline::parse(text).unwrap();
    assert!(!compare(&other, &[figure(1.0)], "1").1);
}
