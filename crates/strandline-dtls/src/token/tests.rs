use super::*;

#[test]
fn a_token_is_for_one_client_and_time() {
    let tokens = Tokens::new(&[7; 32]);
    let client: SocketAddr = "192.0.2.1:1000".parse().unwrap();
    let token = tokens.issue(100, client, 5);
    assert!(tokens.is_valid(100, client, 5, &token));
    assert!(tokens.is_valid(100 + LIFETIME_SECS, client, 5, &token));
    assert!(!tokens.is_valid(101 + LIFETIME_SECS, client, 5, &token), "too old");
    assert!(!tokens.is_valid(99, client, 5, &token), "from the future");
    assert!(!tokens.is_valid(100, client, 6, &token), "another connection ID");
    for other in ["192.0.2.1:1001", "192.0.2.2:1000"] {
        assert!(!tokens.is_valid(100, other.parse().unwrap(), 5, &token), "{other}");
    }
    for index in 0..TOKEN_LEN {
        let mut changed = token;
        changed[index] ^= 1;
        assert!(!tokens.is_valid(100, client, 5, &changed));
        assert!(!tokens.is_valid(100, client, 5, &token[..index]));
    }
    assert!(!Tokens::new(&[8; 32]).is_valid(100, client, 5, &token), "another server's");
}
