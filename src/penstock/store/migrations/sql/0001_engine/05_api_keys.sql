-- Keys of the HTTP API. The table is nobody's to read: the functions below run as its owner, and none of them gives a hash away.
create table penstock.api_keys (
    key_id       varchar(12) primary key check (key_id ~ '^[a-z0-9]{12}$'),
    secret_hash  bytea not null check (octet_length(secret_hash) = 32),
    scope        text not null check (scope in ('orchestrator', 'frontend', 'operator')),
    home_id      uuid,
    user_id      uuid,
    name         varchar(100) not null,
    created_at   timestamptz not null default penstock.now(),
    created_by   varchar(100) not null,
    expires_at   timestamptz check (expires_at > created_at),
    revoked_at   timestamptz,
    revoked_by   varchar(100),
    last_used_at timestamptz,            -- to within five minutes

    -- A frontend speaks for one user of one home. An orchestrator may be held to a home; an operator has none.
    check (case scope when 'frontend' then home_id is not null and user_id is not null
                      when 'orchestrator' then user_id is null
                      else home_id is null and user_id is null end),
    check ((revoked_at is null) = (revoked_by is null))
);

-- What a key may do, or nothing: an unknown id, a wrong secret, a revoked and an expired key give the same answer, and
-- each costs the same look-up and the same comparison. What is compared are hashes of the hashes, mixed with bytes that
-- nobody can know, so the time that it takes tells nothing about the stored one.
create function penstock.check_key(
    p_key_id text, p_hash bytea, out scope text, out home_id uuid, out user_id uuid)
    language plpgsql volatile security definer set search_path = pg_catalog
as $$
declare
    at timestamptz := penstock.now();
    salt bytea := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
    known penstock.api_keys;
    same boolean;
    valid boolean;
begin
    select * into known from penstock.api_keys k where k.key_id = p_key_id;
    same := sha256(coalesce(known.secret_hash, salt) || salt) = sha256(coalesce(p_hash, '') || salt);
    valid := known.key_id is not null and known.revoked_at is null and coalesce(known.expires_at > at, true);
    if not same or not valid then
        return;
    end if;
    scope := known.scope;
    home_id := known.home_id;
    user_id := known.user_id;
    if coalesce(known.last_used_at < at - interval '5 minutes', true) then
        -- One of many requests at once notes it; the others do not wait.
        update penstock.api_keys k set last_used_at = at
         where k.key_id in (select u.key_id from penstock.api_keys u where u.key_id = p_key_id for update skip locked);
    end if;
end
$$;

-- A new key. Its secret never comes here: whoever makes it sends the hash.
create function penstock.create_key(
    p_key_id text, p_hash bytea, p_scope text, p_home_id uuid, p_user_id uuid, p_name text, p_who text, p_valid interval)
    returns timestamptz
    language sql volatile security definer set search_path = pg_catalog
as $$
    insert into penstock.api_keys (key_id, secret_hash, scope, home_id, user_id, name, created_by, created_at, expires_at)
    values (p_key_id, p_hash, p_scope, p_home_id, p_user_id, p_name, p_who, penstock.now(), penstock.now() + p_valid)
    returning created_at
$$;

create function penstock.list_keys()
    returns table (key_id text, scope text, home_id uuid, user_id uuid, name text, created_at timestamptz, created_by text,
                   expires_at timestamptz, revoked_at timestamptz, revoked_by text, last_used_at timestamptz, state text)
    language sql stable security definer set search_path = pg_catalog
as $$
    select k.key_id, k.scope, k.home_id, k.user_id, k.name, k.created_at, k.created_by, k.expires_at, k.revoked_at,
           k.revoked_by, k.last_used_at,
           case when k.revoked_at is not null then 'revoked' when k.expires_at <= penstock.now() then 'expired'
                else 'valid' end
      from penstock.api_keys k
     order by k.created_at desc, k.key_id
$$;

-- From now on the key is refused. A key that was revoked keeps who did it and when; null: there is no such key.
create function penstock.revoke_key(p_key_id text, p_who text) returns timestamptz
    language sql volatile security definer set search_path = pg_catalog
as $$
    update penstock.api_keys k
       set revoked_at = coalesce(k.revoked_at, penstock.now()), revoked_by = coalesce(k.revoked_by, p_who)
     where k.key_id = p_key_id
    returning k.revoked_at
$$;
