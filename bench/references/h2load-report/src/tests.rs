use super::{request, seconds};

#[test]
fn times_and_log_lines_are_read() {
    assert_eq!(seconds("1.5s").ok(), Some(1.5));
    assert_eq!(seconds("250.00ms").ok(), Some(0.25));
    assert!(seconds("soon").is_err());
    assert_eq!(request("1700000000000000\t200\t61500\t1\t1"), Some((200, 61.5)));
    assert_eq!(request(""), None);
}
