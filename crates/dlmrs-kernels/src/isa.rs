//! Which instructions the kernels may use.

#[cfg(target_arch = "x86_64")]
mod amx;

use std::sync::OnceLock;

/// A level of vector instructions. Equal bits are promised at one level, not across levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// What every CPU of the target has; on x86-64 no fused multiply-add.
    Scalar,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL (with AVX2 and FMA).
    Avx512,
    /// AVX-512 with products of bytes (VNNI).
    Avx512Vnni,
    /// AVX-512 with products of bytes and of bf16 (VNNI, BF16).
    Avx512Bf16,
    /// AMX: products of whole tiles of bytes and of bf16, with AVX-512 as above for the rest. The system has to allow it.
    Amx,
}

impl Isa {
    const ALL: [Isa; 6] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Avx512Vnni, Isa::Avx512Bf16, Isa::Amx];

    /// The best level the CPU says it has, lowered by the environment variable `DLMRS_ISA` (`scalar`, `avx2`, `avx512`,
    /// `avx512vnni`, `avx512bf16`, `amx`). A value that is unknown, or above what the CPU has, is ignored. Read once in a process.
    pub fn detect() -> Isa {
        static CHOSEN: OnceLock<Isa> = OnceLock::new();
        *CHOSEN.get_or_init(|| Isa::lowered(Isa::best(), std::env::var("DLMRS_ISA").ok().as_deref()))
    }

    /// Every level this CPU can run, lowest first, whatever `DLMRS_ISA` says.
    pub fn available() -> Vec<Isa> {
        let best = Isa::best();
        Isa::ALL.into_iter().filter(|isa| *isa <= best).collect()
    }

    /// The name as written in `DLMRS_ISA`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Avx512Vnni => "avx512vnni",
            Isa::Avx512Bf16 => "avx512bf16",
            Isa::Amx => "amx",
        }
    }

    /// The best level of this CPU, as far as the system lets this process use it. Asked once, so that every kernel may ask; where there is AMX
    /// the system is asked for tiles then, whatever `DLMRS_ISA` says.
    pub(crate) fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(Isa::of_cpu)
    }

    #[cfg(target_arch = "x86_64")]
    fn of_cpu() -> Isa {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        let vnni = is_x86_feature_detected!("avx512vnni");
        let bf16 = is_x86_feature_detected!("avx512bf16");
        match (avx2, avx512, vnni, bf16) {
            (true, true, true, true) if amx::usable() => Isa::Amx,
            (true, true, true, true) => Isa::Avx512Bf16,
            (true, true, true, false) => Isa::Avx512Vnni,
            (true, true, false, _) => Isa::Avx512,
            (true, false, ..) => Isa::Avx2,
            _ => Isa::Scalar,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn of_cpu() -> Isa {
        Isa::Scalar
    }

    fn lowered(best: Isa, wanted: Option<&str>) -> Isa {
        let wanted = wanted.map(str::trim);
        Isa::ALL.into_iter().find(|isa| *isa <= best && wanted.is_some_and(|name| name.eq_ignore_ascii_case(isa.name()))).unwrap_or(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_lowers_and_never_raises() {
        assert_eq!(Isa::lowered(Isa::Avx512, Some("avx2")), Isa::Avx2);
        assert_eq!(Isa::lowered(Isa::Avx512, Some(" SCALAR ")), Isa::Scalar);
        assert_eq!(Isa::lowered(Isa::Avx2, Some("avx512")), Isa::Avx2);
        assert_eq!(Isa::lowered(Isa::Avx2, Some("sse9")), Isa::Avx2);
        assert_eq!(Isa::lowered(Isa::Avx512, Some("")), Isa::Avx512);
        assert_eq!(Isa::lowered(Isa::Scalar, None), Isa::Scalar);
    }

    #[test]
    fn the_choice_is_one_of_the_available() {
        let all = Isa::available();
        assert_eq!(all.first(), Some(&Isa::Scalar));
        assert!(all.is_sorted() && all.contains(&Isa::detect()));
    }
}
