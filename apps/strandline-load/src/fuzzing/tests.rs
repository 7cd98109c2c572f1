use strandline_fuzzing::smoke;

#[test]
fn perf_control() {
    smoke("perf_control", super::perf_control);
}

#[test]
fn load_control() {
    smoke("load_control", super::load_control);
}

#[test]
fn scenario() {
    smoke("scenario", super::scenario);
}
