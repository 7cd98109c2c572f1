use super::*;

#[test]
fn forgotten_transaction_frees_its_bytes() {
    let mut account = Account::new(1 << 20);
    let mut place = Vec::new();
    account.put(&mut place, &[1; 5000]);
    let held = account.holder().hold(&[2; 300]).and(20);
    let mut charge = account.holder().charge(7);
    charge.add(3);
    assert_eq!(account.bytes(), 5330);
    assert_eq!(*held, [2; 300]);
    drop(held);
    drop(charge);
    assert_eq!(account.bytes(), 5000);
    account.free(&mut place);
    assert_eq!((account.bytes(), place.capacity()), (0, 0));
}

#[test]
fn reused_slot_returns_large_buffers() {
    let mut account = Account::new(1 << 20);
    let mut place = Vec::new();
    for (len, most) in [(300, 400), (100_000, 100_000), (90_000, 100_000), (500, 500), (700, 1000)] {
        account.put(&mut place, &vec![b'x'; len]);
        assert_eq!((place.len(), account.bytes()), (len, place.capacity()));
        assert!(place.capacity() <= most, "{} for {len}", place.capacity());
    }
}

#[test]
fn large_requests_leave_room_for_others() {
    let account = Account::new(1 << 20);
    let (large, usual) = (100_000, 1000);
    assert!(
        account.has_room_for_new(large, 2) && account.has_room(1 << 20) && !account.has_room((1 << 20) + 1)
    );
    let _half = account.holder().charge(1 << 19);
    assert!(!account.has_room_for_new(large, 2) && account.has_room_for_new(usual, 2));
    let _most = account.holder().charge((1 << 19) - (1 << 17));
    assert!(!account.has_room_for_new(usual, 2) && account.has_room(large));
    let _rest = account.holder().charge(1 << 17);
    assert!(!account.has_room(1));
}
