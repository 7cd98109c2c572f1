use super::*;

fn users(some: &[User]) -> Vec<&[u8]> {
    let mut users: Vec<&[u8]> = some.iter().map(|(aor, _)| &**aor).collect();
    users.sort_unstable();
    users
}

#[test]
fn users_are_folded_once_with_latest_state() {
    let mut folding = Folding::default();
    assert!(folding.is_done());
    folding.note(b"alice", b"old");
    folding.note(b"bob", b"state");
    folding.note(b"alice", b"new");
    let (some, folded) = folding.take(7, FOLD);
    assert_eq!(users(&some), [b"alice".as_slice(), b"bob"]);
    assert!(some.iter().any(|(aor, state)| **aor == *b"alice" && state == b"new"));
    assert_eq!(folded, Some(7));
    assert!(folding.is_done());
}

#[test]
fn folding_round_frees_the_journal_at_its_end() {
    let mut folding = Folding::default();
    (0..FOLD + 1).for_each(|number| folding.note(number.to_string().as_bytes(), b"state"));
    let (some, folded) = folding.take(7, FOLD);
    assert_eq!((some.len(), folded), (FOLD, None));
    assert!(folding.is_due());
    folding.note(b"later", b"state");
    let (some, folded) = folding.take(8, FOLD);
    // Later changes don't belong to this round.
    assert_eq!((some.len(), folded), (1, Some(7)));
    assert!(!folding.is_done());
}

#[test]
fn failed_folding_is_retried_unless_changed() {
    let mut folding = Folding::default();
    folding.note(b"alice", b"old");
    folding.note(b"bob", b"state");
    let (some, _) = folding.take(7, FOLD);
    folding.note(b"alice", b"new");
    folding.put_back(some);
    let (some, folded) = folding.take(8, FOLD);
    assert_eq!(users(&some), [b"alice".as_slice(), b"bob"]);
    assert!(some.iter().any(|(aor, state)| **aor == *b"alice" && state == b"new"));
    assert_eq!(folded, Some(8));
}

#[test]
fn repeated_users_make_folding_due() {
    let mut folding = Folding::default();
    let state = vec![b'x'; 1 << 20];
    for _ in 0..31 {
        folding.note(b"alice", &state);
        assert!(!folding.is_due());
    }
    folding.note(b"alice", &state);
    assert!(folding.is_due());
}
