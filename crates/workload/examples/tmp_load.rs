//! dev only
use postgres::{Client, NoTls};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let o = tenbin_workload::tpcc::load::LoadOptions {
        warehouses: a[2].parse().unwrap(),
        threads: a[3].parse().unwrap(),
        schema: a[4].clone(),
        replace: true,
        foreign_keys: a[5] == "1",
        partitions: a.get(6).map(|p| p.parse().unwrap()),
        ..Default::default()
    };
    let t = std::time::Instant::now();
    let r = tenbin_workload::tpcc::load::load(
        &o,
        || Client::connect(&a[1], NoTls),
        &std::sync::atomic::AtomicBool::new(false),
        &mut |p| println!("{p:?}"),
    );
    println!("{r:?} {:?}", t.elapsed());
}
