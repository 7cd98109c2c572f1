use super::*;

#[test]
fn missing_program_is_found_before_set_up() {
    let shell = |text: &str| Invocation::Shell(text.to_owned()).check();
    shell("sleep 1").unwrap();
    shell("cd / && ls").unwrap();
    let beside = std::env::current_exe().unwrap();
    shell(beside.file_name().unwrap().to_str().unwrap()).unwrap();
    shell("X=1 no-such-program").unwrap();
    assert!(shell("no-such-program -x").unwrap_err().to_string().contains("no-such-program"));
    let direct = Invocation::Direct(vec!["no-such-program".to_owned(), "x".to_owned()]);
    assert!(direct.check().is_err());
    assert_eq!(direct.shown(), "no-such-program x");
}
