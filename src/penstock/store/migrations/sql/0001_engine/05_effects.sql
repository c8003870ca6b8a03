-- The ledger of outside effects (C-61): who may perform, what is known, and how a doubt is settled.

-- The intent of an effect, committed before the outside world is touched. Answers what the caller has to do:
--   lost     its claim no longer owns the job: nothing
--   busy     another claim that is alive has the effect in hand: come back later
--   done     it has happened: use the result
--   first    nobody has tried: perform
--   again    an earlier try may have happened: settle first
--   absent   an earlier try has certainly not happened: perform
-- A call that is repeated with its nonce, because its reply was lost, gets the answer of the first time.
create function penstock.intend(
    p_job_id uuid, p_claim_seq bigint, p_worker text, p_key text, p_kind text, p_token text, p_holds boolean,
    p_nonce uuid,
    out verdict text, out result text)
    language plpgsql volatile
as $$
declare
    at timestamptz := penstock.now();
    known penstock.effects;
begin
    -- Locked against the reaper for as long as this takes, so that only a claim that owns its job can intend.
    perform from penstock.jobs j
      where j.job_id = p_job_id and j.claim_seq = p_claim_seq and j.claimed_by = p_worker and j.status = 'processing'
        for share;
    if not found then
        verdict := 'lost';
        return;
    end if;
    insert into penstock.effects (effect_key, kind, token, job_id, claim_seq, intent_id, holds_claim, intended_at)
    values (p_key, p_kind, p_token, p_job_id, p_claim_seq, p_nonce, p_holds, at)
    on conflict (effect_key) do nothing;
    if found then
        verdict := 'first';
    else
        select * into known from penstock.effects e where e.effect_key = p_key for update;
        if known.state = 'done' then
            verdict := 'done';
            result := known.result::text;
            return;
        end if;
        if (known.job_id, known.claim_seq) is distinct from (p_job_id, p_claim_seq)
           and penstock.intent_held(known, at) then
            verdict := 'busy';
            return;
        end if;
        if known.intent_id = p_nonce then
            select a.outcome into verdict from penstock.effect_attempts a
             where a.effect_key = p_key and a.action = 'intend' order by a.attempt_id desc limit 1;
            return;
        end if;
        verdict := case when known.state = 'abandoned' then 'absent' else 'again' end;
        update penstock.effects e
           set job_id = p_job_id, claim_seq = p_claim_seq, intent_id = p_nonce, holds_claim = p_holds, intended_at = at, state = 'intended',
               perform_count = e.perform_count + 1, adopted_by = null, adopted_until = null
         where e.effect_key = p_key;
    end if;
    insert into penstock.effect_attempts (effect_key, at, action, outcome) values (p_key, at, 'intend', verdict);
end
$$;

-- Whether an open intent is still in somebody's hand: its claim is alive, or a recovery has adopted it. An intent that
-- holds its claim (C-36) is never taken over by another job; only a recovery may release it.
create function penstock.intent_held(p_effect penstock.effects, p_at timestamptz) returns boolean
    language sql stable
as $$
    select p_effect.state in ('intended', 'uncertain')
       and (coalesce(p_effect.adopted_until > p_at, false)
            or exists (select from penstock.jobs j
                        where j.job_id = p_effect.job_id and j.claim_seq = p_effect.claim_seq and j.status = 'processing'
                          and (p_effect.holds_claim or j.lease_expires_at > p_at)))
$$;

-- An operator has looked outside and says whether the effect had happened. Refused while somebody has it in hand.
create function penstock.resolve_effect(p_effect_key text, p_happened boolean, p_who text, p_result jsonb default null)
    returns text
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    at timestamptz := penstock.now();
    known penstock.effects;
begin
    select * into known from penstock.effects e where e.effect_key = p_effect_key for update;
    if not found then
        return null;
    end if;
    if known.state in ('done', 'abandoned') then
        return known.state;
    end if;
    if penstock.intent_held(known, at) then
        raise exception using errcode = '55006', message = 'this effect is being performed or recovered right now',
            hint = 'Wait until its job has ended or its lease has expired.';
    end if;
    update penstock.effects e
       set state = case when p_happened then 'done' else 'abandoned' end, done_at = case when p_happened then at end,
           settled_at = at, result = case when p_happened then p_result end
     where e.effect_key = p_effect_key;
    insert into penstock.effect_attempts (effect_key, at, action, outcome)
    values (p_effect_key, at, 'settle', left((case when p_happened then 'found by ' else 'absent by ' end) || p_who, 50));
    return case when p_happened then 'done' else 'abandoned' end;
end
$$;

-- What counted as done turns out not to have happened: the next try performs. Say so only on proof from outside; an effect
-- that is not done stays as it is. Returns its state, null when there is none.
create function penstock.reopen_effect(p_effect_key text, p_who text) returns text
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
begin
    update penstock.effects e
       set state = 'abandoned', done_at = null, settled_at = penstock.now(), result = null
     where e.effect_key = p_effect_key and e.state = 'done';
    if found then
        insert into penstock.effect_attempts (effect_key, at, action, outcome)
        values (p_effect_key, penstock.now(), 'settle', left('reopened by ' || p_who, 50));
    end if;
    return (select e.state from penstock.effects e where e.effect_key = p_effect_key);
end
$$;
