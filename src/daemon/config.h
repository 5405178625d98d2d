#pragma once
#include "base/error.h"
#include "base/log.h"

/*
 * What the daemon is told: by flags, else by the environment, else by a configuration file, else by
 * default. One table row per option; its flag without the dashes is also its key in the file.
 */
#define ATOLL_CONFIG_PATH_MAX 4096

struct atoll_config {
    char state[ATOLL_CONFIG_PATH_MAX];  /* absolute */
    char socket[ATOLL_CONFIG_PATH_MAX]; /* absolute */
    char listen[256];                   /* HOST:PORT, "" for none */
    char tls_listen[256];               /* HOST:PORT, "" for none */
    char tls_cert[ATOLL_CONFIG_PATH_MAX], tls_key[ATOLL_CONFIG_PATH_MAX]; /* "": one of our own */
    char preview_domain[200];
    char host_names[1024];                /* separated by commas or blanks */
    char registry[ATOLL_CONFIG_PATH_MAX]; /* "" for the default one */
    char drivers[ATOLL_CONFIG_PATH_MAX];  /* likewise */
    char providers
        [ATOLL_CONFIG_PATH_MAX];      /* providers.yaml; "" for the one in the state directory */
    char file[ATOLL_CONFIG_PATH_MAX]; /* "" for none */
    uint32_t pool, max_sandboxes;
    uint32_t tenant_sandboxes, tenant_creates, tenant_execs, tenant_queue;
    uint32_t creates;                    /* of all tenants; 0: by the CPUs */
    uint64_t tenant_memory, tenant_disk; /* 0: by the machine */
    uint64_t total_memory, total_disk;   /* 0: no bound */
    uint32_t tenant_cpus, total_cpus;    /* the same */
    uint32_t key_rate, wrong_key_rate;   /* requests a second; 0: no limit */
    uint32_t e2b_max_hours;              /* 0: no limit */
    uint64_t journal_max_bytes;
    uint64_t journal_sandbox_bytes, journal_tenant_bytes, journal_total_bytes; /* 0: by the disk */
    uint32_t journal_days;
    uint64_t artifacts_max_bytes;
    uint32_t artifacts_days;
    uint32_t waived; /* ATOLL_LIMIT_* */
    enum atoll_log_level log_level;
    bool help, version, list_routes;
};

/* INVALID_ARGUMENT names the flag, the variable or the line of the file that is wrong. With help or
 * version set the rest is not to be relied upon. Blocking: reads the file, if one is named. */
int atoll_config_load(struct atoll_config *config, int argc, char *const *argv,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* Prints the options to standard output. */
void atoll_config_print_help(void);
