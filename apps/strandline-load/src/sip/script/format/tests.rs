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
        ("name = \"x\"".to_owned(), "it has no [[step]]"),
        (PING.replace("send", "sned"), "unknown field `sned`"),
        (step("expect = 200\npause = 1.0"), "step 2: it has expect and pause, and may have one of them"),
        (step("who = \"caller\""), "step 2: it needs one of send, answer, expect and pause"),
        (step("expect = 99"), "step 2: expect is 99, and a code is 101 to 699"),
        (
            step("expect = \"7xx\""),
            "step 2: expect is a code such as 200, a class such as \"2xx\", or a method",
        ),
        (step("expect = 200\nto = \"sip:x\""), "step 2: to goes with send"),
        (step("expect = 200\nbody = \"x\""), "step 2: body goes with send and answer"),
        (step("pause = -1.0"), "step 2: pause is -1, and must be 0 to 3600 seconds"),
        (step("pause = 1.0"), "the last step must expect something"),
        (step("answer = 200"), "step 2: the caller expects no request before it answers one"),
        (
            step("who = \"callee\"\nexpect = 200"),
            "step 2: the callee sends no request before it expects an answer",
        ),
        (step("expect = \"BYE\""), "step 2: the callee sends nothing before the caller expects BYE"),
        (step("send = \"options\""), "step 2: \"options\" is no method"),
        (step("send = \"CANCEL\""), "step 2: CANCEL can't be sent"),
        (step("send = \"INFO\"\nbody = \"x\""), "step 2: body needs content_type"),
        (step("send = \"INFO\"\ncontent_type = \"a/b\""), "step 2: content_type goes with body"),
        (step("send = \"INFO\"\nheaders = [\"Via: x\"]"), "step 2: headers: Via is written by itself"),
        (
            step("send = \"INFO\"\nheaders = [\"no colon\"]"),
            "step 2: headers: \"no colon\" is not like \"Name: value\"",
        ),
        (step("send = \"INFO\"\nheaders = [\"A b: x\"]"), "step 2: headers: \"A b\" is no name of a header"),
        (step("send = \"INFO\"\nheaders = [\"A: x\\ny\"]"), "step 2: headers: A has more than one line"),
        (step("send = \"INFO\"\nto = \"sip:{who}@x\""), "step 2: to: {who} is none of {user}, {other}"),
        (step("send = \"INFO\"\nto = \"sip:{user@x\""), "step 2: to: a { that isn't closed"),
        (PING.replace("send = ", "who = \"callee\"\nsend = "), "step 1: the callee can't begin"),
        (PING.replace("OPTIONS", "ACK"), "step 1: there is nothing to acknowledge yet"),
    ] {
        let told = wrong(&text);
        assert!(told.contains(error), "{told}\nlacks\n{error}");
    }
}
