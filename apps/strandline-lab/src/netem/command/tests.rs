use super::*;

#[test]
fn a_missing_program_is_named_with_its_package() {
    assert!(missing("/usr/bin/iperf3").contains("apt-get install iperf3"));
    assert!(missing("ping").contains("iputils-ping"));
    let error = run("no-such-program", &[], "").unwrap_err();
    assert!(error.to_string().contains("program 'no-such-program' not found"));
    let error = run("sh", &["-c", "echo wrong >&2; exit 3"], "").unwrap_err();
    assert!(error.to_string().contains("wrong"), "{error}");
}

#[test]
fn what_goes_in_comes_out() {
    assert_eq!(run("cat", &[], "text").unwrap().stdout, b"text");
}
