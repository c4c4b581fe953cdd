//! Whether reductions are done in the order of ranks.

use std::sync::atomic::AtomicI32;

/// Not zero: they are.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the shim has it under this name")]
pub(crate) static dms_orders_reductions: AtomicI32 = AtomicI32::new(0);
