use super::*;

fn run(steps: &[(u64, &'static str)]) -> Steps {
    let mut state = State::default();
    let begin = Instant::now();
    for (micros, step) in steps {
        state.reach(1, step, begin + Duration::from_micros(*micros));
    }
    state.steps
}

#[test]
fn each_step_is_measured_from_the_one_before() {
    let steps = run(&[
        (0, "s:INIT"),
        (140, "r:INIT-ACK"),
        (150, "s:COOKIE-ECHO"),
        (280, "r:COOKIE-ACK"),
        (290, "s:DATA"),
        (291, "s:DATA"),
        (650, "r:DATA"),
        (651, "r:DATA"),
    ]);
    let micros = |step| (steps.median_ms(step).unwrap() * 1000.0).round() as u64;
    assert_eq!(micros("r:INIT-ACK"), 140);
    assert_eq!(micros("s:COOKIE-ECHO"), 10);
    assert_eq!(micros("r:COOKIE-ACK"), 130);
    assert_eq!(micros("s:DATA"), 10);
    assert_eq!(micros("r:DATA"), 360);
    assert!(steps.median_ms("s:INIT").is_none());
}

#[test]
fn data_on_cookie_echo_is_no_step() {
    let steps = run(&[
        (0, "s:INIT"),
        (100, "r:INIT-ACK"),
        (110, "s:COOKIE-ECHO"),
        (110, "s:DATA"),
        (300, "r:COOKIE-ACK"),
        (310, "r:DATA"),
    ]);
    assert!(steps.median_ms("s:DATA").is_none());
    assert!((0.009..0.011).contains(&steps.median_ms("r:DATA").unwrap()));
}
