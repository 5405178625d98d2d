#pragma once
#include "api/facade.h"
#include "base/error.h"
#include "base/log.h"
#include "sandbox/spec.h"

/*
 * The daemon's configuration. Precedence: flags, the environment, the configuration file, defaults.
 * One table row per option; the flag without its dashes is also the key in the file.
 */
#define ATOLL_CONFIG_PATH_MAX 4096

struct atoll_config {
    char state[ATOLL_CONFIG_PATH_MAX];  /* absolute */
    char socket[ATOLL_CONFIG_PATH_MAX]; /* absolute */
    char listen[256];                   /* HOST:PORT, "" for none */
    char tls_listen[256];               /* HOST:PORT, "" for none */
    char ssh_listen[256], ssh_host[256];
    char tls_cert[ATOLL_CONFIG_PATH_MAX],
        tls_key[ATOLL_CONFIG_PATH_MAX]; /* "": self-signed, made by the daemon */
    char tls_names[512];                /* further names of that, separated by commas */
    char preview_domain[200];
    char host_names[1024];                         /* separated by commas or blanks */
    char cors_origins[1024];                       /* likewise, or "*" */
    uint32_t open_loopback;                        /* 0 or 1 */
    char registry[ATOLL_CONFIG_PATH_MAX];          /* "": the default directory */
    char pull_request_hook[ATOLL_CONFIG_PATH_MAX]; /* "": none */
    char drivers[ATOLL_CONFIG_PATH_MAX];           /* likewise */
    char providers[ATOLL_CONFIG_PATH_MAX]; /* providers.yaml; "": the one in the state directory */
    char file[ATOLL_CONFIG_PATH_MAX];      /* "" for none */
    uint32_t pool, pool_max, max_sandboxes;
    uint64_t pool_memory; /* 0: derived from the host */
    uint32_t tenant_sandboxes, tenant_creates, tenant_execs, tenant_queue, tenant_secrets;
    uint32_t creates;                    /* of all tenants; 0: derived from the number of CPUs */
    uint64_t tenant_memory, tenant_disk; /* 0: derived from the host */
    uint64_t total_memory, total_disk;   /* 0: unlimited */
    uint32_t tenant_cpus, total_cpus;    /* CPUs; 0 as for memory and disk */
    uint32_t key_rate, wrong_key_rate;   /* requests per second; 0: unlimited */
    uint32_t facade_options[ATOLL_FACADE_OPTIONS_MAX];
    uint64_t journal_max_bytes;
    uint64_t journal_sandbox_bytes, journal_tenant_bytes,
        journal_total_bytes; /* 0: derived from the disk */
    uint32_t journal_days;
    uint64_t template_cache_max_bytes, build_step_max_bytes, build_caches_max_bytes;
    uint32_t template_history;
    uint32_t tenant_snapshots;
    uint64_t tenant_snapshot_bytes;
    char snapshot_days[4096], snapshot_keep[4096];
    uint64_t artifacts_max_bytes;
    uint32_t artifacts_days;
    uint32_t ended_max, ended_days;
    uint64_t ended_output_bytes;
    uint32_t waived; /* ATOLL_LIMIT_* */
    enum atoll_disks disks;
    char host_folders[8192]; /* sandbox/host_folders.h */
    uint32_t io_mbps;        /* MiB a second; 0: no limit */
    char network_max[4096];
    char network_deny[16384], network_internal[16384];
    uint64_t cache_max_bytes;                       /* 0: downloads are not kept */
    char cache_table[ATOLL_CONFIG_PATH_MAX];        /* "": the one in the registry */
    char image_mirrors[4096], image_insecure[4096]; /* separated by commas or blanks */
    char image_logins[ATOLL_CONFIG_PATH_MAX];       /* "": none */
    uint64_t image_max_bytes;
    char tool_interceptor[ATOLL_CONFIG_PATH_MAX]; /* "": none */
    uint32_t tool_interceptor_s;                  /* how long it may take; 1 to 60 */
    uint32_t tool_interceptor_allow;              /* 0 or 1 */
    char webhook_internal[4096];                  /* separated by commas or blanks */
    enum atoll_log_level log_level;
    bool help, version, list_routes, new_secret_key;
};

/* INVALID_ARGUMENT names the flag, the variable or the line of the file that is wrong. If help
 * or version is set, the other fields are undefined. Blocking: reads the file, if one is named. */
int atoll_config_load(struct atoll_config *config, int argc, char *const *argv,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* Prints the options to standard output. */
void atoll_config_print_help(void);
