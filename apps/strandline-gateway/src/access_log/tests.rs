use std::fs;

use super::AccessLog;

#[test]
fn lines_go_to_the_file_opened_last() {
    let path = std::env::temp_dir().join(format!("strandline-gateway-log-{}", std::process::id()));
    let renamed = path.with_extension("1");
    let log = AccessLog::open(&path).unwrap();
    log.write("one".to_owned());
    fs::rename(&path, &renamed).unwrap();
    log.reopen();
    log.write("two".to_owned());
    drop(log);
    assert_eq!(fs::read_to_string(&renamed).unwrap(), "one\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    fs::remove_file(path).unwrap();
    fs::remove_file(renamed).unwrap();
}
