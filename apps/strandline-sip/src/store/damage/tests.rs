use super::*;

#[test]
fn all_damage_is_counted() {
    let mut damage = Damage::default();
    assert!(damage.is_none());
    for number in 0..100 {
        damage.on_row("journal", number, "told so");
        damage.on_user("b", b"alice", 2);
        damage.on_user("b", b"bob", 0);
    }
    damage.on_missing("journal", "b", 3, 3);
    let mut all = Damage::default();
    all.on_missing("journal", "", 1, 9);
    all.add(damage);
    assert_eq!((all.rows, all.missing, all.is_none()), (200, 10, false));
}
