import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;

/**
 * Kafka Streams as a peer: reads commands from standard input, answers each with one line.
 *
 * Commands: {@code load FILE} (put into the table's store, untimed), {@code run FILE} (timed), {@code ask FILE}
 * (look up as of each record's time). A join also knows {@code inner FILE}, for which records that find nothing are
 * not told. A file has big-endian longs: key, time in ms, n. The answer of each is
 * {@code seconds count sum(times) sum(n)}: of run, what came out; of ask, the versions found.
 */
public final class KafkaPeer {
    private static final Serde<Long> KEYS = Serdes.Long();
    private static final Serde<byte[]> VALUES = Serdes.ByteArray();

    interface Work {
        void load(Data data);

        long[] run(Data data);

        default long[] inner(Data data) {
            throw new UnsupportedOperationException();
        }

        default void clear() { }

        default VersionedKeyValueStore<Long, byte[]> store() {
            return null;
        }
    }

    record Data(long[] key, long[] ts, byte[][] value) { }

    public static void main(String[] args) throws Exception {
        Path state = Path.of(args[1]);
        Work work = switch (args[0]) {
            case "store" -> new Store(state);
            case "join" -> new Join(state);
            case "suppress" -> new Suppress(state, Integer.parseInt(args[2]), Long.parseLong(args[3]));
            default -> throw new IllegalArgumentException(args[0]);
        };
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 2);
            Data data = read(Path.of(words[1]));
            System.gc();
            long started = System.nanoTime();
            long[] told = new long[3];
            switch (words[0]) {
                case "load" -> work.load(data);
                case "run" -> told = work.run(data);
                case "inner" -> told = work.inner(data);
                case "ask" -> told = ask(work.store(), data);
                default -> throw new IllegalArgumentException(line);
            }
            double seconds = (System.nanoTime() - started) / 1e9;
            work.clear();
            System.out.printf("%.6f %d %d %d%n", seconds, told[0], told[1], told[2]);
            System.out.flush();
        }
    }

    /** The persistent versioned store alone: no changelog, no cache, one thread. */
    private static final class Store implements Work {
        private final VersionedKeyValueStore<Long, byte[]> store;

        Store(Path state) {
            MockProcessorContext<Void, Void> context = new MockProcessorContext<>(
                settings(), new org.apache.kafka.streams.processor.TaskId(0, 0), state.toFile());
            store = Stores.versionedKeyValueStoreBuilder(
                    Stores.persistentVersionedKeyValueStore("store", Duration.ofDays(3650)), KEYS, VALUES)
                .withLoggingDisabled().withCachingDisabled().build();
            store.init(context.getStateStoreContext(), store);
        }

        @Override
        public void load(Data data) {
            run(data);
        }

        @Override
        public long[] run(Data data) {
            long[] told = new long[3];
            for (int i = 0; i < data.key.length; i++) {
                long validTo = store.put(data.key[i], data.value[i], data.ts[i]);
                told[0] += validTo == VersionedKeyValueStore.PUT_RETURN_CODE_VALID_TO_UNDEFINED ? 1 : 0;
            }
            return told;
        }

        @Override
        public VersionedKeyValueStore<Long, byte[]> store() {
            return store;
        }
    }

    /** A stream joined to a versioned table, through the test driver. */
    private static final class Join implements Work {
        private final TopologyTestDriver driver;
        private final TestInputTopic<Long, byte[]> left;
        private final TestInputTopic<Long, byte[]> inner;
        private final TestOutputTopic<Long, byte[]> out;

        Join(Path state) {
            StreamsBuilder builder = new StreamsBuilder();
            KTable<Long, byte[]> table = builder.table("table", Consumed.with(KEYS, VALUES),
                Materialized.<Long, byte[]>as(
                        Stores.persistentVersionedKeyValueStore("store", Duration.ofDays(3650)))
                    .withKeySerde(KEYS).withValueSerde(VALUES).withLoggingDisabled());
            builder.stream("left", Consumed.with(KEYS, VALUES))
                .leftJoin(table, KafkaPeer::both, Joined.with(KEYS, VALUES, VALUES))
                .to("out", Produced.with(KEYS, VALUES));
            builder.stream("inner", Consumed.with(KEYS, VALUES))
                .join(table, KafkaPeer::both, Joined.with(KEYS, VALUES, VALUES))
                .to("out", Produced.with(KEYS, VALUES));
            driver = driver(builder, state);
            left = driver.createInputTopic("left", KEYS.serializer(), VALUES.serializer());
            inner = driver.createInputTopic("inner", KEYS.serializer(), VALUES.serializer());
            out = driver.createOutputTopic("out", KEYS.deserializer(), VALUES.deserializer());
        }

        @Override
        public void load(Data data) {
            VersionedKeyValueStore<Long, byte[]> store = store();
            for (int i = 0; i < data.key.length; i++) {
                store.put(data.key[i], data.value[i], data.ts[i]);
            }
        }

        @Override
        public VersionedKeyValueStore<Long, byte[]> store() {
            return driver.getVersionedKeyValueStore("store");
        }

        @Override
        public long[] run(Data data) {
            return pipe(left, data);
        }

        @Override
        public long[] inner(Data data) {
            return pipe(inner, data);
        }

        private long[] pipe(TestInputTopic<Long, byte[]> stream, Data data) {
            long[] told = new long[3];
            for (int i = 0; i < data.key.length; i++) {
                stream.pipeInput(data.key[i], data.value[i], data.ts[i]);
                byte[] value = out.isEmpty() ? new byte[0] : out.readValue();
                if (value.length > 20) {
                    told[0]++;
                    told[2] += n(value, 20);
                }
            }
            return told;
        }

        private static long n(byte[] value, int at) {
            return Math.round(ByteBuffer.wrap(value).getDouble(at) * 4);
        }
    }

    /** A table's changes held back for a time, in a buffer of bounded size that emits early. */
    private static final class Suppress implements Work {
        private final TopologyTestDriver driver;
        private final TestInputTopic<Long, byte[]> table;
        private final TestOutputTopic<Long, byte[]> out;

        Suppress(Path state, int records, long waitMs) {
            StreamsBuilder builder = new StreamsBuilder();
            builder.table("table", Consumed.with(KEYS, VALUES),
                    Materialized.<Long, byte[]>as(Stores.inMemoryKeyValueStore("store"))
                        .withKeySerde(KEYS).withValueSerde(VALUES).withLoggingDisabled().withCachingDisabled())
                .suppress(Suppressed.untilTimeLimit(Duration.ofMillis(waitMs),
                    Suppressed.BufferConfig.maxRecords(records).emitEarlyWhenFull().withLoggingDisabled()))
                .toStream().to("out", Produced.with(KEYS, VALUES));
            driver = driver(builder, state);
            table = driver.createInputTopic("table", KEYS.serializer(), VALUES.serializer());
            out = driver.createOutputTopic("out", KEYS.deserializer(), VALUES.deserializer());
        }

        @Override
        public void load(Data data) {
            run(data);
        }

        @Override
        public long[] run(Data data) {
            long[] told = new long[3];
            for (int i = 0; i < data.key.length; i++) {
                table.pipeInput(data.key[i], data.value[i], data.ts[i]);
                while (!out.isEmpty()) {
                    told[0]++;
                    told[2] += Math.round(ByteBuffer.wrap(out.readValue()).getDouble() * 4);
                }
            }
            return told;
        }
    }

    private static long[] ask(VersionedKeyValueStore<Long, byte[]> store, Data data) {
        long[] told = new long[3];
        for (int i = 0; i < data.key.length; i++) {
            VersionedRecord<byte[]> found = store.get(data.key[i], data.ts[i]);
            if (found != null) {
                told[0]++;
                told[1] += found.timestamp();
                told[2] += Math.round(ByteBuffer.wrap(found.value()).getDouble() * 4);
            }
        }
        return told;
    }

    private static byte[] both(byte[] left, byte[] right) {
        if (right == null) {
            return left;
        }
        byte[] both = new byte[left.length + right.length];
        System.arraycopy(left, 0, both, 0, left.length);
        System.arraycopy(right, 0, both, left.length, right.length);
        return both;
    }

    private static TopologyTestDriver driver(StreamsBuilder builder, Path state) {
        Properties settings = settings();
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        return new TopologyTestDriver(builder.build(), settings, Instant.EPOCH);
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:9");
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0L);
        return settings;
    }

    /** Values of 20 bytes: the number a = n / 4 and a text of twelve characters, as in the Parquet files. */
    private static Data read(Path file) throws Exception {
        ByteBuffer longs = ByteBuffer.wrap(Files.readAllBytes(file));
        int count = longs.remaining() / 24;
        Data data = new Data(new long[count], new long[count], new byte[count][]);
        for (int i = 0; i < count; i++) {
            data.key[i] = longs.getLong();
            data.ts[i] = longs.getLong();
            long n = longs.getLong();
            byte[] value = new byte[20];
            ByteBuffer.wrap(value).putDouble(n / 4.0);
            byte[] name = "name-0000000".getBytes(StandardCharsets.US_ASCII);
            for (int place = 11; n > 0; n /= 10) {
                name[place--] = (byte) ('0' + n % 10);
            }
            System.arraycopy(name, 0, value, 8, 12);
            data.value[i] = value;
        }
        return data;
    }
}
