#![allow(clippy::unwrap_used)]

use super::*;

fn figure(engine: f64) -> Figure {
    Figure { name: "packet", each: Each { engine, checksum: 1.0, hashing: 0.0, library: 2.0 } }
}

#[test]
fn only_what_got_dearer_fails() {
    let baseline = Baseline::parse(&written(&[figure(1000.0)], "rustc 1")).unwrap();
    let holds = |engine| compare(&baseline, &[figure(engine)], "rustc 1").1;
    assert!(holds(1000.0) && holds(1019.0) && holds(500.0));
    assert!(!holds(1021.0));
    let (report, _) = compare(&baseline, &[figure(500.0)], "rustc 2");
    assert!(report.contains("bench-instructions-update") && report.contains("rustc 2"), "{report}");
}

#[test]
fn a_figure_without_counterpart_fails() {
    let nothing = Baseline::parse("rustc = \"1\"\n[instructions]\n").unwrap();
    assert!(!compare(&nothing, &[figure(1.0)], "1").1);
    let other = Baseline::parse("rustc = \"1\"\n[instructions]\n\"other\" = 1.0\npacket = 1.0\n").unwrap();
    assert!(!compare(&other, &[figure(1.0)], "1").1);
}
