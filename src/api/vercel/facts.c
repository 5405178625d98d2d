/*
 * Facts: what this facade stores about a sandbox in addition to the engine's record.
 */
#include "api/vercel/vercel_internal.h"

const struct atoll_facts_kind atoll_vercel_kind = {
    .facade = "vercel",
    .foreign = "{}",
    .changed = "updatedAt",
    .subject = "Sandbox",
    .max = ATOLL_VERCEL_FACTS_MAX,
};

json_t *atoll_vercel_facts(const struct atoll_sandbox *sandbox)
{
    return atoll_facts_of(&atoll_vercel_kind, sandbox);
}

int atoll_vercel_facts_store(struct atoll_engine *engine, const char *id, json_t *facts,
                             struct atoll_error *err)
{
    return atoll_facts_store(&atoll_vercel_kind, engine, id, facts, err);
}

int atoll_vercel_change(struct atoll_engine *engine, const char *id, const char *name,
                        json_t *value, struct atoll_error *err)
{
    return atoll_facts_change(&atoll_vercel_kind, engine, id, name, value, err);
}

bool atoll_vercel_box_get(struct atoll_engine *engine, const char *id, struct atoll_vercel_box *ret)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(engine, id);

    if (!sandbox)
        return false;
    ret->sandbox = sandbox;
    atoll_sandbox_get(sandbox, &ret->view);
    ret->facts = atoll_vercel_facts(sandbox);
    return true;
}

void atoll_vercel_box_done(struct atoll_vercel_box *box)
{
    json_decref(box->facts);
    box->facts = NULL;
}

bool atoll_vercel_box_is_ours(const struct atoll_vercel_box *box)
{
    return !atoll_facts_are_foreign(box->facts);
}
