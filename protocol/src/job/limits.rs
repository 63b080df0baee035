//! How large the parts of a job may be.
//!
//! A limit on everything that is received, far above what people write and far below what would
//! hurt the manager or be refused by the kernel.

/// Tasks of a job: room for any sweep that can be worked on, and for sums of several in a `u64`.
pub const N_TASKS_MAX: u64 = 1_000_000_000_000_000_000;
/// Tasks of a job that are estimated one by one: the manager sorts them where it packs by estimates.
pub const N_ESTIMATED_TASKS_MAX: u64 = 1_000_000;
/// Values of all parameters of the tasks of a sample that has estimates.
pub const N_SAMPLED_VALUES_MAX: u64 = 10_000_000;
/// Stages of a workflow.
pub const N_STAGES_MAX: usize = 10_000;
/// Dimensions of a sweep.
pub const N_DIMENSIONS_MAX: usize = 64;
/// Columns of a sweep, zip groups and tables included.
pub const N_COLUMNS_MAX: usize = 1_000;
/// Values of a parameter that are listed one by one.
pub const N_TEXTS_MAX: usize = 2_000_000;
/// Ranges of a parameter.
pub const N_RANGES_MAX: usize = 10_000;
/// Bytes of a job as JSON. It travels to each pilot in one message, among smaller ones of other jobs.
pub const SPEC_BYTES_MAX: usize = 192 << 20;
/// Bytes of all listed values together.
pub const SWEEP_BYTES_MAX: usize = SPEC_BYTES_MAX;
/// Bytes of one argument, value or variable: Linux takes no longer one (`MAX_ARG_STRLEN`).
pub const TEXT_BYTES_MAX: usize = 128 << 10;
/// Arguments of a command.
pub const N_ARGS_MAX: usize = 10_000;
/// Environment variables.
pub const N_ENV_MAX: usize = 1_000;
/// Bytes of a name: job, application, parameter, variable, resource, column.
pub const NAME_BYTES_MAX: usize = 200;
/// Bytes of a path (`PATH_MAX`).
pub const PATH_BYTES_MAX: usize = 4096;
/// Cores of a task: more than any one machine has.
pub const CORES_MAX: u32 = 65_536;
/// GPUs of a task.
pub const GPUS_MAX: u32 = 1_024;
/// Kinds of generic resources of a job.
pub const N_GENERIC_MAX: usize = 64;
/// Memory of a task: 1 PiB.
pub const MEMORY_BYTES_MAX: u64 = 1 << 50;
/// Time limits and delays: 366 days.
pub const DURATION_MS_MAX: u64 = 366 * 24 * 3600 * 1000;
/// Retries of a task.
pub const RETRIES_MAX: u32 = 1_000;
/// Pilot losses a task may be blamed for.
pub const CRASH_LIMIT_MAX: u32 = 1_000;
/// What a job has that says nothing of its crash limit.
pub const CRASH_LIMIT_DEFAULT: u32 = 5;
/// Inputs of a job, and outputs.
pub const N_FILES_MAX: usize = 1_000;
/// Files that a job brings from its submitter's folder, all inputs together.
pub const N_OBJECTS_MAX: u64 = 200_000;
/// Files that a task takes of those that others leave.
pub const N_TAKEN_MAX: u64 = 200_000;
/// Files that a task leaves by patterns and folders.
pub const N_LEFT_MAX: usize = 200_000;
/// Bytes of a file that is brought or left: 1 TiB.
pub const OBJECT_BYTES_MAX: u64 = 1 << 40;
/// Columns extracted from the output.
pub const N_EXTRACT_MAX: usize = 100;
/// Bytes of a value taken out of a task's output: a cell of a table, not the output again.
pub const EXTRACTED_BYTES_MAX: usize = 64 << 10;
/// Bytes kept of each stream of each task when the job says nothing.
pub const RESULT_LIMIT_BYTES_DEFAULT: u64 = 1 << 20;
/// Bytes that may be kept of each stream of each task: 64 MiB, so that both fit into one message.
pub const RESULT_LIMIT_BYTES_MAX: u64 = 64 << 20;
/// Bytes of output kept of all tasks of a job when it says nothing: 1 GiB.
pub const RESULT_BUDGET_BYTES_DEFAULT: u64 = 1 << 30;
/// Bytes that may be kept: 1 TiB.
pub const RESULT_BUDGET_BYTES_MAX: u64 = 1 << 40;
/// Files that the tasks of a job write together when it says nothing: more are seldom meant, and file systems suffer.
pub const RESULT_FILES_DEFAULT: u64 = 1_000_000;
/// Bytes of a job file: room for some hundred thousand `tasks`. Reading takes about 25 times as much memory.
pub const JOB_FILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a file of lines or a CSV file.
pub const DATA_FILE_BYTES_MAX: u64 = 256 << 20;
