use super::*;

fn id(slot: u32, generation: u32) -> AssociationId {
    AssociationId { slot, generation }
}

#[test]
fn an_old_name_finds_nothing() {
    let mut table = Table::default();
    table.insert(id(700, 0), Owner::OneToOne);
    assert_eq!(table.get(id(700, 0)).and_then(Entry::owner), Some(Owner::OneToOne));
    table.remove(id(700, 0));
    assert!(table.get(id(700, 0)).is_none());
    table.insert(id(700, 1), Owner::OneToMany(2));
    assert!(table.get_mut(id(700, 0)).is_none());
    table.remove(id(700, 0));
    assert_eq!(table.in_slot(700), Some((id(700, 1), Owner::OneToMany(2))));
    assert_eq!(table.len(), 1);
}

#[test]
fn an_entry_is_small() {
    assert!(size_of::<Entry>() <= 32, "{}", size_of::<Entry>());
}
