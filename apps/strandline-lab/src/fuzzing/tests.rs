use strandline_fuzzing::smoke;

#[test]
fn plan() {
    smoke("plan", super::plan);
}

#[test]
fn netem_schedule() {
    smoke("netem_schedule", super::netem_schedule);
}

#[test]
fn perf_trace() {
    smoke("perf_trace", super::perf_trace);
}
