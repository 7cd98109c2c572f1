use super::*;

#[test]
fn sets_contain_what_was_added() {
    let all: ChunkTypes = (0..=u8::MAX).collect();
    assert!(all.iter().eq(0..=u8::MAX));
    for kind in 0..=u8::MAX {
        let one = ChunkTypes::NONE.with(kind);
        assert!(!one.is_empty() && one.iter().eq([kind]));
    }
}

#[test]
fn forbidden_types_of_peers_are_ignored() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let set = ChunkTypes::of_peer(&all);
    assert!(set.may_be_demanded());
    assert_eq!(set.iter().count(), 252);
    for kind in FORBIDDEN {
        assert!(!ChunkTypes::NONE.with(kind).may_be_demanded());
    }
}

#[test]
fn keys_are_not_printed() {
    assert_eq!(format!("{:?}", SharedKey::new(b"secret")), "SharedKey(6 bytes)");
}
