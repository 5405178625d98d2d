/*
 * Versions and tags for tests that do not need them: every name is that of a template. Part of
 * fake_engine.h.
 */
#pragma once

static inline struct atoll_template_view fake_template(const char *name,
                                                       enum atoll_template_kind kind)
{
    return (struct atoll_template_view){
        .name = name,
        .kind = kind,
        .digest = kind == ATOLL_TEMPLATE_HOST ? "" : "sha256-0",
        .owner = "",
        .provider = "",
        .id = "00000000-0000-4000-8000-000000000000",
        .tags = "latest",
        .layers = "",
        .config_json = "{\"Env\": []}",
        .source = "import",
        .definition = "",
        .start_cmd = "",
        .ready_cmd = "",
        .report_json = "",
        .parent = "",
        .sandbox_id = "",
        .shares = "",
        .version_count = 1,
    };
}

int atoll_template_resolve(struct atoll_engine *engine, const char *tenant, const char *reference,
                           struct atoll_template_view *ret, struct atoll_error *err)
{
    static char name[512]; /* a view borrows it */
    const struct atoll_error *error = fake_failure(engine);

    (void)tenant;
    if (error) {
        *err = *error;
        return -ENOENT;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(reference, ":@"), reference);
    *ret = fake_template(name, ATOLL_TEMPLATE_ROOTFS);
    return 0;
}

bool atoll_templates_find(struct atoll_engine *engine, const char *tenant, const char *reference,
                          struct atoll_template_view *ret)
{
    struct atoll_error ignored;
    return atoll_template_resolve(engine, tenant, reference, ret, &ignored) == 0;
}

bool atoll_template_may_use(const struct atoll_template_view *view, const char *tenant)
{
    (void)view;
    (void)tenant;
    return true;
}

void atoll_template_each_version(struct atoll_engine *engine, const char *owner, const char *name,
                                 void (*fn)(void *arg, const struct atoll_template_view *version,
                                            const char *tags),
                                 void *arg)
{
    const struct atoll_template_view view = fake_template(name, ATOLL_TEMPLATE_ROOTFS);

    (void)engine;
    (void)owner;
    fn(arg, &view, view.tags);
}

int atoll_template_tag(struct atoll_engine *engine, const char *owner, const char *reference,
                       const char *tag, struct atoll_error *err)
{
    const struct atoll_error *error = fake_failure(engine);

    (void)owner;
    (void)reference;
    (void)tag;
    if (error)
        *err = *error;
    return error ? -EIO : 0;
}

int atoll_template_share(struct atoll_engine *engine, const char *owner, const char *name,
                         const char *shares, struct atoll_error *err)
{
    return atoll_template_tag(engine, owner, name, shares, err);
}

int atoll_version_file(struct atoll_engine *engine, const char *version_id, const char *what,
                       int flags, struct atoll_error *err)
{
    (void)engine;
    (void)version_id;
    (void)flags;
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "this version has no %s", what);
}

bool atoll_layer_find(struct atoll_engine *engine, const char *name, struct atoll_layer_facts *ret)
{
    (void)engine;
    *ret = (struct atoll_layer_facts){.name = name, .diff_id = ""};
    return true;
}

struct atoll_template_usage atoll_templates_usage(struct atoll_engine *engine)
{
    (void)engine;
    return (struct atoll_template_usage){0};
}

struct atoll_template_usage atoll_templates_collect(struct atoll_engine *engine, const char *tenant,
                                                    bool steps)
{
    (void)tenant;
    (void)steps;
    return atoll_templates_usage(engine);
}

void atoll_version_id(char out[static ATOLL_VERSION_ID_LEN + 1])
{
    (void)snprintf(out, ATOLL_VERSION_ID_LEN + 1, "00000000-0000-4000-8000-000000000001");
}

int atoll_version_find(struct atoll_engine *engine, const char *version_id,
                       struct atoll_template_view *ret, struct atoll_error *err)
{
    (void)version_id;
    return atoll_template_resolve(engine, "", "found", ret, err);
}
