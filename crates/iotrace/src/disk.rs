//! Rotating disks to hold a trace against.
//!
//! One head, one request after the other in the order of issue, no cache and no queue in the disk.
//! A request that starts where the one before ended costs its transfer alone; any other the seek,
//! half a revolution and its transfer. The seek curve is that of E. K. Lee and R. H. Katz, "An
//! analytic performance model of disk arrays", SIGMETRICS 1993: a √(x − 1) + b (x − 1) + c over x
//! cylinders, whose three constants follow from the shortest, mean and longest seek.

/// What a disk's manual says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskModel {
    /// Name to ask for it by.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Where the figures come from.
    pub source: &'static str,
    /// Size, sectors of 512 bytes.
    pub sectors: u64,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Data surfaces.
    pub heads: u32,
    /// Tracks of a surface.
    pub cylinders: u32,
    /// Bytes of a track, on average over the zones.
    pub track_bytes: f64,
    /// Shortest, mean and longest seek of a read, ms.
    pub read_seek_ms: [f64; 3],
    /// The same of a write, which has to settle better.
    pub write_seek_ms: [f64; 3],
}

/// Every disk known.
pub const DISKS: [DiskModel; 2] = [
    DiskModel {
        name: "savvio-10k4",
        title: "Seagate Savvio 10K.4 ST9600204SS, 600 GB, 10,000 rpm",
        source: "Savvio 10K.4 SAS Product Manual 100539221 Rev. A, December 2009, sections 4.1 and 4.2",
        sectors: 1_172_123_568,
        rpm: 10_000.0,
        heads: 6,
        cylinders: 147_620,
        track_bytes: 677_557.0,
        read_seek_ms: [0.30, 3.8, 7.81],
        write_seek_ms: [0.56, 4.4, 8.18],
    },
    DiskModel {
        name: "savvio-10k1",
        title: "Seagate Savvio ST973401SS, 73 GB, 10,000 rpm",
        source: "Savvio SAS Product Manual Rev. D, sections 4.1 and 4.2",
        sectors: 143_374_744,
        rpm: 10_000.0,
        heads: 4,
        cylinders: 51_052,
        track_bytes: 360_000.0,
        read_seek_ms: [0.20, 4.0, 8.1],
        write_seek_ms: [0.60, 4.4, 8.6],
    },
];

impl DiskModel {
    /// The disk of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        DISKS.iter().find(|disk| disk.name == name)
    }

    /// Time to move the head over so many cylinders, ms.
    #[must_use]
    pub fn seek_ms(&self, cylinders: f64, write: bool) -> f64 {
        if cylinders <= 0.0 {
            return 0.0;
        }
        let [least, mean, most] = if write {
            self.write_seek_ms
        } else {
            self.read_seek_ms
        };
        let all = f64::from(self.cylinders);
        let a = (-10.0 * least + 15.0 * mean - 5.0 * most) / (3.0 * all.sqrt());
        let b = (7.0 * least - 15.0 * mean + 8.0 * most) / (3.0 * all);
        let beyond = (cylinders - 1.0).max(0.0);
        a * beyond.sqrt() + b * beyond + least
    }

    /// The cylinder of a sector, were all tracks of the mean length.
    fn cylinder(&self, sector: u64) -> f64 {
        (sector as f64 * 512.0 / (self.track_bytes * f64::from(self.heads))).floor()
    }

    /// Time of one revolution, ms.
    #[must_use]
    pub fn revolution_ms(&self) -> f64 {
        60_000.0 / self.rpm
    }

    /// Time for one request, ms, when the one before it ended at `head`.
    #[must_use]
    pub fn request_ms(&self, head: u64, sector: u64, bytes: u32, write: bool) -> f64 {
        let transfer = f64::from(bytes) / self.track_bytes * self.revolution_ms();
        if sector == head {
            return transfer;
        }
        let distance = (self.cylinder(sector) - self.cylinder(head)).abs();
        self.seek_ms(distance, write) + self.revolution_ms() / 2.0 + transfer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The curve gives back what it was made from: the manual's shortest, mean and longest seek.
    #[test]
    fn the_seek_curve_has_the_manuals_three_points() {
        for disk in &DISKS {
            for (write, [least, mean, most]) in
                [(false, disk.read_seek_ms), (true, disk.write_seek_ms)]
            {
                let near = |value: f64, wanted: f64| (value - wanted).abs() < wanted * 0.003;
                let all = f64::from(disk.cylinders);
                assert!(near(disk.seek_ms(1.0, write), least), "{}", disk.name);
                assert!(near(disk.seek_ms(all - 1.0, write), most), "{}", disk.name);
                // Mean over two cylinders drawn at random: distance x has the density 2 (1 − x).
                let steps = 100_000;
                let sum: f64 = (0..steps)
                    .map(|i| {
                        let x = (f64::from(i) + 0.5) / f64::from(steps);
                        2.0 * (1.0 - x) * disk.seek_ms(x * all, write)
                    })
                    .sum();
                assert!(
                    near(sum / f64::from(steps), mean),
                    "{}: {}",
                    disk.name,
                    sum / f64::from(steps)
                );
            }
        }
    }

    #[test]
    fn a_sequential_read_takes_its_transfer_and_a_far_one_the_way_there() {
        let disk = &DISKS[0];
        // One track in one revolution of 6 ms.
        assert!((disk.request_ms(8, 8, 677_557, false) - 6.0).abs() < 1e-9);
        // The next track but one request's room: half a revolution of 3 ms on the same cylinder.
        assert!((disk.request_ms(8, 16, 0, false) - 3.0).abs() < 1e-9);
        let far = disk.request_ms(0, disk.sectors - 1, 0, false);
        assert!((far - 10.81).abs() < 0.05, "{far}");
    }

    #[test]
    fn sizes_agree_with_geometry() {
        for disk in &DISKS {
            let geometry =
                disk.track_bytes * f64::from(disk.heads) * f64::from(disk.cylinders) / 512.0;
            let ratio = geometry / disk.sectors as f64;
            assert!((0.95..1.05).contains(&ratio), "{}: {ratio}", disk.name);
        }
    }
}
