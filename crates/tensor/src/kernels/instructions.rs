//! Detection of vector instructions, and loops compiled for each instruction set.
//!
//! A loop over numbers is written once; [`vectorised`] compiles it for AVX-512, for AVX2 and for
//! any machine, and dispatches to the best version at run time. Only the first two have fused
//! multiply-adds, which the body gets as a constant; so bits differ between instruction sets, but
//! not between runs.
#![allow(
    unsafe_code,
    reason = "functions compiled for an instruction set are called where it is found"
)]

/// Instruction sets that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Instructions {
    /// The baseline of the architecture.
    Common,
    /// 256 bits and fused multiply-adds: `avx2`, `fma`.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512 bits, for all scalar types, also in shorter registers: `avx512f`, `bw`, `dq`, `vl`.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// The best instruction set of this machine.
    #[inline]
    pub(crate) fn here() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (avx2, avx512) {
                (true, true) => return Self::Avx512,
                (true, false) => return Self::Avx2,
                (false, _) => {}
            }
        }
        Self::Common
    }

    /// Name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Common => std::env::consts::ARCH,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "x86-64, AVX2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "x86-64, AVX-512",
        }
    }
}

/// Names of the vector instructions of this machine that are relevant for results.
#[allow(unused_mut, reason = "only some machines are asked")]
pub(crate) fn found() -> Vec<&'static str> {
    let mut names = Vec::new();
    #[cfg(target_arch = "x86_64")]
    macro_rules! look {
        ($($name:tt),*) => {
            $(if is_x86_feature_detected!($name) {
                names.push($name);
            })*
        };
    }
    #[cfg(target_arch = "aarch64")]
    macro_rules! look {
        ($($name:tt),*) => {
            $(if std::arch::is_aarch64_feature_detected!($name) {
                names.push($name);
            })*
        };
    }
    #[cfg(target_arch = "x86_64")]
    look!(
        "sse4.2",
        "avx",
        "f16c",
        "fma",
        "avx2",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16"
    );
    #[cfg(target_arch = "aarch64")]
    look!("neon", "fp16", "dotprod", "bf16", "sve");
    names
}

/// Compiles a function for every instruction set. Its constant parameter says whether multiply-adds
/// are fused.
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<const $fused:ident: bool $(, $t:ident: $bound:path)?>(
        $($arg:ident: $ty:ty),* $(,)?
    ) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name$(<$t: $bound>)?($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(unused, reason = "not every loop has a multiply-add")]
            fn portable<const $fused: bool $(, $t: $bound)?>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2$(<$t: $bound>)?($($arg: $ty),*) $(-> $ret)? {
                portable::<true $(, $t)?>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            fn avx512$(<$t: $bound>)?($($arg: $ty),*) $(-> $ret)? {
                portable::<true $(, $t)?>($($arg),*)
            }

            match crate::kernels::instructions::Instructions::here() {
                crate::kernels::instructions::Instructions::Common => {
                    portable::<false $(, $t)?>($($arg),*)
                }
                // SAFETY: this machine has the instructions.
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code, reason = "the instructions are there")]
                crate::kernels::instructions::Instructions::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                #[allow(unsafe_code, reason = "the instructions are there")]
                crate::kernels::instructions::Instructions::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    };
}

pub(crate) use vectorised;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kernels_use_is_among_what_was_found() {
        let found = found();
        let has = |names: &[&str]| names.iter().all(|name| found.contains(name));
        match Instructions::here() {
            Instructions::Common => assert!(!has(&["avx2", "fma"]), "{found:?}"),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => assert!(has(&["avx2", "fma"]), "{found:?}"),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => {
                assert!(has(&["avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl"]), "{found:?}");
            }
        }
    }
}
