//! What the driver itself uses, read from `/proc`.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of one thread, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cpu {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
}

impl Cpu {
    /// The calling thread's, so far. The sum is the scheduler's, exact to nanoseconds;
    /// `/proc` divides it between the modes, in ticks.
    pub(crate) fn of_this_thread() -> Self {
        let total_s = thread_cpu_s();
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let (user, system) = ticks(&stat).unwrap_or((1, 0));
        let share = user as f64 / (user + system).max(1) as f64;
        Self {
            user_s: total_s * share,
            system_s: total_s * (1.0 - share),
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_s: (self.user_s - earlier.user_s).max(0.0),
            system_s: (self.system_s - earlier.system_s).max(0.0),
        }
    }
}

/// CPU time of the calling thread so far, seconds.
pub(crate) fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Fields 14 and 15 of proc(5)'s stat: `utime` and `stime`. The name in parentheses may hold anything.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Largest resident memory of this process so far, bytes; 0 where `/proc` does not say.
#[must_use]
pub fn rss_max_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_stat() {
        let stat = "42 (a) b) R 1 2 3 4 5 6 7 8 9 10 1234 56 0 0 20 0";
        assert_eq!(ticks(stat), Some((1234, 56)));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn a_thread_that_works_uses_cpu_and_a_process_uses_memory() {
        let before = Cpu::of_this_thread();
        let mut x = 1_u64;
        while thread_cpu_s() < before.user_s + before.system_s + 0.05 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let used = Cpu::of_this_thread().since(before);
        assert!(used.user_s + used.system_s >= 0.05, "{used:?}");
        assert!(rss_max_bytes() > 100_000);
    }
}
