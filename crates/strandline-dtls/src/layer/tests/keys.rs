//! Changes of keys.

use super::*;

/// A client that changes its keys every 38 to 50 records.
fn with_few_records() -> World {
    let (client, server) = (identity(), identity());
    let mut few = config(&client, &[&server]);
    few.limits.records_per_key = 50;
    World::new(few, config(&server, &[&client]))
}

fn transfer(world: &mut World) {
    for number in 0..2000u32 {
        world.up(&number.to_be_bytes());
        world.down(&number.to_be_bytes());
        world.run(Duration::from_millis(2));
    }
    world.secs(1);
}

#[test]
fn keys_change_in_mid_transfer() {
    let mut world = with_few_records();
    (world.duplication, world.reordering) = (5, 5);
    world.associate();
    transfer(&mut world);
    assert_eq!(world.texts(1).len(), 2000);
    assert_eq!(world.texts(0).len(), 2000);
}

#[test]
fn keys_change_although_datagrams_are_lost() {
    let mut world = with_few_records();
    world.associate();
    world.loss = 5;
    transfer(&mut world);
    assert!(world.hosts.iter().all(|host| host.failure().is_none()));
    assert!(world.texts(1).len() > 1800, "{}", world.texts(1).len());
    assert!(world.texts(0).len() > 1800, "{}", world.texts(0).len());
}
