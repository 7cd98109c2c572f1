use super::*;

const PING: &str = r#"
name = "ping"
[[step]]
send = "OPTIONS"
[[step]]
expect = 200
"#;

fn wrong(text: &str) -> String {
    format!("{:#}", Script::read(text).unwrap_err())
}

#[test]
fn shortest_script_is_request_and_response() {
    let script = Script::read(PING).unwrap();
    assert_eq!((script.name.as_str(), script.register, script.steps.len()), ("ping", true, 2));
    let What::Send { method, to, .. } = &script.steps[0].what else { panic!("{script:?}") };
    assert_eq!((method.as_str(), to.is_none()), ("OPTIONS", true));
    let What::Expect(wanted) = &script.steps[1].what else { panic!("{script:?}") };
    assert!(wanted.is_code(200) && !wanted.is_code(202) && !wanted.is_method(b"200"));
}

#[test]
fn classes_and_methods_are_expected() {
    let class = PING.replace("expect = 200", "expect = \"2xx\"");
    let What::Expect(wanted) = Script::read(&class).unwrap().steps[1].what.clone() else { panic!() };
    assert!(wanted.is_code(200) && wanted.is_code(299) && !wanted.is_code(300));
    let method = PING.replace("expect = 200", "who = \"callee\"\nexpect = \"OPTIONS\"");
    let What::Expect(wanted) = Script::read(&method).unwrap().steps[1].what.clone() else { panic!() };
    assert!(wanted.is_method(b"OPTIONS") && !wanted.is_method(b"INVITE"));
}

#[test]
fn what_is_wrong_is_told_with_its_step() {
    let step = |more: &str| PING.replace("expect = 200", more);
    for (text, error) in [
        ("name = \"x\"".to_owned(), "at least one [[step]] is required"),
        (PING.replace("send", "sned"), "unknown field `sned`"),
        (step("expect = 200\npause = 1.0"), "step 2: expect and pause cannot be combined in one step"),
        (step("who = \"caller\""), "step 2: one of send, answer, expect and pause is required"),
        (step("expect = 99"), "step 2: expect must be 101 to 699, not 99"),
        (
            step("expect = \"7xx\""),
            "step 2: expect must be a code such as 200, a class such as \"2xx\", or a method",
        ),
        (step("expect = 200\nto = \"sip:x\""), "step 2: to requires send"),
        (step("expect = 200\nbody = \"x\""), "step 2: body requires send or answer"),
        (step("pause = -1.0"), "step 2: pause must be 0 to 3600 seconds, not -1"),
        (step("pause = 1.0"), "the last step must be an expect"),
        (step("answer = 200"), "step 2: the caller answers a request before expecting one"),
        (
            step("who = \"callee\"\nexpect = 200"),
            "step 2: the callee expects a response before sending a request",
        ),
        (step("expect = \"BYE\""), "step 2: the caller expects BYE, but the callee has not sent one"),
        (step("send = \"options\""), "step 2: \"options\" is not a method"),
        (step("send = \"CANCEL\""), "step 2: CANCEL cannot be sent"),
        (step("send = \"INFO\"\nbody = \"x\""), "step 2: body requires content_type"),
        (step("send = \"INFO\"\ncontent_type = \"a/b\""), "step 2: content_type requires body"),
        (step("send = \"INFO\"\nheaders = [\"Via: x\"]"), "step 2: headers: Via is added automatically"),
        (
            step("send = \"INFO\"\nheaders = [\"no colon\"]"),
            "step 2: headers: expected \"Name: value\", not \"no colon\"",
        ),
        (
            step("send = \"INFO\"\nheaders = [\"A b: x\"]"),
            "step 2: headers: \"A b\" is not a valid header name",
        ),
        (step("send = \"INFO\"\nheaders = [\"A: x\\ny\"]"), "step 2: headers: A must be a single line"),
        (
            step("send = \"INFO\"\nto = \"sip:{who}@x\""),
            "step 2: to: unknown placeholder {who}: use {user}, {other}",
        ),
        (step("send = \"INFO\"\nto = \"sip:{user@x\""), "step 2: to: unclosed {"),
        (PING.replace("send = ", "who = \"callee\"\nsend = "), "step 1: only the caller can start"),
        (PING.replace("OPTIONS", "ACK"), "step 1: no response to acknowledge yet"),
    ] {
        let told = wrong(&text);
        assert!(told.contains(error), "{told}\nlacks\n{error}");
    }
}
