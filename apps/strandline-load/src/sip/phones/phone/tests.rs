use super::*;

#[test]
fn final_responses_count_and_may_delay_retry() {
    assert_eq!(final_answer(b"SIP/2.0 100 Trying\r\n\r\n"), None);
    let ok = Final { code: 200, retry_after: None };
    assert_eq!(final_answer(b"SIP/2.0 200 OK\r\nExpires: 5\r\n\r\n"), Some(ok));
    let refused = Final { code: 503, retry_after: Some(7) };
    assert_eq!(final_answer(b"SIP/2.0 503 Busy\r\nRetry-After: 7\r\n\r\n"), Some(refused));
}
