#pragma once
#include <jansson.h>
#include <stdio.h>
#include "client/link.h"

/*
 * Figures that anyone can take again: Atoll beside what else this host has (bwrap, runc, docker,
 * runsc, a plain process), each with how strong its isolation is. Those that are compared take
 * turns, in an order shuffled anew each time, so that noise of the machine hits all alike: what
 * counts is the ratio, not the milliseconds.
 * Blocking; one thread, and the threads of the throughput measure while that lasts.
 */

#define ATOLL_BENCH_SAMPLES_MAX 400
/* Of the file that goes up and down. */
#define ATOLL_BENCH_FILE_BYTES (64u << 20)

/* What is measured. */
struct atoll_bench_measure {
    const char *id;
    const char *title; /* for people */
    const char *unit;  /* of a sample */
    bool more_is_better;
    unsigned rounds, quick_rounds;
};

struct atoll_bench;

/* One of those that are measured. Tables of these are constant but for what `run` fills in. */
struct atoll_bench_subject {
    const struct atoll_bench_measure *measure;
    char name[48];
    const char *tier; /* how strong its walls are */
    /* Gets ready; a failure takes the subject out, with its text as the reason. May be NULL. */
    int (*open)(struct atoll_bench *b, struct atoll_bench_subject *s, struct atoll_error *err);
    /* Takes one sample, in the unit of the measure. */
    int (*round)(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                 struct atoll_error *err);
    void (*close)(struct atoll_bench *b, struct atoll_bench_subject *s); /* may be NULL */

    const char *provider; /* of Atoll's: who makes the sandbox */
    bool cold, pooled;    /* of Atoll's: not from the warm pool, or from it alone */
    char *argv[24];       /* of a command's */
    char id[64];          /* the sandbox or container it works with */
    char token[96];       /* of its preview, or its session */
    int pid;              /* of its server on the host */

    size_t count;
    double samples[ATOLL_BENCH_SAMPLES_MAX]; /* sorted after the run */
    char problem[ATOLL_ERROR_TEXT_MAX];      /* why it was not measured, or "" */
};

#define ATOLL_BENCH_SUBJECTS_MAX 64

struct atoll_bench {
    const struct atoll_client_options *options; /* how to reach the daemon; borrowed */
    struct atoll_client *client;                /* borrowed */
    const char *program;                        /* the CLI itself, to be run as a process */
    const char *scratch;                        /* a directory of our own */
    const char *only;                           /* id of a measure, or NULL */
    bool quick;
    void (*progress)(const char *what); /* may be NULL */
    char root[512];                     /* see atoll_bench_root() */
    size_t count;
    struct atoll_bench_subject *subjects; /* owned */
};

/* The measures, in the order of the report. */
enum {
    ATOLL_BENCH_START,
    ATOLL_BENCH_EXEC,
    ATOLL_BENCH_RATE,
    ATOLL_BENCH_MEMORY,
    ATOLL_BENCH_UPLOAD,
    ATOLL_BENCH_DOWNLOAD,
    ATOLL_BENCH_PREVIEW,
    ATOLL_BENCH_CODE,
    ATOLL_BENCH_MEASURES,
};
extern const struct atoll_bench_measure atoll_bench_measures[ATOLL_BENCH_MEASURES];

/* Everything: enters the subjects, measures, sorts. Fails when the daemon cannot be talked to or
 * `only` is no measure; a subject that cannot be measured is no failure. */
int atoll_bench_run(struct atoll_bench *b, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_bench_done(struct atoll_bench *b);

/* Nearest rank, of the sorted samples: always one that was really taken. */
double atoll_bench_percentile(const struct atoll_bench_subject *s, unsigned percent);

/* Reports (report.c, picture.c). */
json_t *atoll_bench_json(const struct atoll_bench *b); /* NULL without memory */
void atoll_bench_print(const struct atoll_bench *b, FILE *out, bool colour);
void atoll_bench_markdown(const struct atoll_bench *b, FILE *out);
void atoll_bench_svg(const struct atoll_bench *b, FILE *out);
/* "AMD EPYC, 2 CPUs, 23.5 GiB, Linux 6.18"; out holds 256 bytes. */
const char *atoll_bench_host(char *out);

/* For the files of subjects. */

/* A new subject, or NULL when there are too many or its measure is not wanted. */
struct atoll_bench_subject *atoll_bench_enter(struct atoll_bench *b, int measure, const char *tier,
                                              const char *name);
/* Enter theirs: atoll.c and traffic.c, others.c and docker.c. */
void atoll_bench_enter_atoll(struct atoll_bench *b);
void atoll_bench_enter_traffic(struct atoll_bench *b);
void atoll_bench_enter_others(struct atoll_bench *b);
void atoll_bench_enter_docker(struct atoll_bench *b);

/* A root of the host's /usr and nothing else, below scratch: what the others show their sandboxes.
 * Made when first asked for; NULL with err. */
const char *atoll_bench_root(struct atoll_bench *b, struct atoll_error *err);
/* Runs a program to its end, silent; fails unless it exits with 0. Blocking. */
int atoll_bench_command(char *const *argv, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same as the round of a subject: milliseconds of its argv. */
int atoll_bench_timed_command(struct atoll_bench *b, struct atoll_bench_subject *s,
                              double *ret_sample, struct atoll_error *err);

/* Lives a second, of Atoll's sandboxes or of its argv, as the round of a subject. */
int atoll_bench_rate_round(struct atoll_bench *b, struct atoll_bench_subject *s, double *ret_sample,
                           struct atoll_error *err);
/* The commands around one sandbox of Atoll's that stays (open, close of a subject). */
int atoll_bench_stay_open(struct atoll_bench *b, struct atoll_bench_subject *s,
                          struct atoll_error *err);
void atoll_bench_stay_close(struct atoll_bench *b, struct atoll_bench_subject *s);

/* Memory the host has left, once that has stopped moving. Blocking: seconds. */
long atoll_bench_settled_kb(void);

/* The strength of walls, in words that all subjects share. */
#define ATOLL_TIER_NONE "none"
#define ATOLL_TIER_NAMESPACES "namespaces"
#define ATOLL_TIER_CONTAINER "namespaces, cgroups, uid 0 outside"
#define ATOLL_TIER_FILTERED "namespaces, cgroups, seccomp, uid 0 outside"
#define ATOLL_TIER_NATIVE "namespaces, cgroups, seccomp, own uids"
#define ATOLL_TIER_KERNEL "a kernel of its own in user space"
