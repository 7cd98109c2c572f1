use super::*;

#[test]
fn a_reset_is_of_one_connection() {
    let client: SocketAddr = "192.0.2.1:1000".parse().unwrap();
    let token = ResetTokens::new(b"key").of(5, client);
    assert!(is_same(&token, &ResetTokens::new(b"key").of(5, client)), "another process");
    let others = [
        ResetTokens::new(b"other").of(5, client),
        ResetTokens::new(b"key").of(6, client),
        ResetTokens::new(b"key").of(5, "192.0.2.1:1001".parse().unwrap()),
    ];
    assert!(others.iter().all(|other| !is_same(&token, other)));
    assert!(!is_same(&token, &token[..15]) && !is_same(&token, &[]));
}

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
