use super::shown;

#[test]
fn numbers() {
    assert_eq!(shown(0.4567), "0.46");
    assert_eq!(shown(12.34), "12.3");
    assert_eq!(shown(1234567.8), "1,234,568");
    assert_eq!(shown(123.4), "123");
    assert_eq!(shown(-1234.0), "-1,234");
}
