import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiter;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * The laboratory's job: orders, cleaned, summed by customer, rated, stored. An ordinary program that
 * knows nothing of plans. Raw types, as the small compiler in Flink's jars infers no generics.
 *
 * Arguments: parallelism of orders, clean, sum, rate, store; bytes of an order; orders a second, 0
 * for as many as go through; and, if they cost more than copying, rounds of work of clean and of rate; and a file that
 * holds the orders a second instead, and is read once a second.
 */
public class Orders {
    public static class Make implements GeneratorFunction {
        private final int bytes;

        public Make(int bytes) {
            this.bytes = bytes;
        }

        public Object map(Object number) {
            return new Tuple2(number, new byte[bytes]);
        }
    }

    /** Keeps a share of an order's bytes, after some rounds of arithmetic. */
    public static class Keep implements MapFunction {
        private final int percent;
        private final int rounds;

        public Keep(int percent, int rounds) {
            this.percent = percent;
            this.rounds = rounds;
        }

        public Object map(Object value) {
            Tuple2 order = (Tuple2) value;
            int bytes = ((byte[]) order.f1).length * percent / 100;
            byte[] kept = new byte[bytes];
            long number = ((Long) order.f0).longValue();
            for (int i = 0; i < rounds; i++) {
                number = number * 6364136223846793005L + 1442695040888963407L;
            }
            kept[0] = (byte) (number >> 56);
            return new Tuple2(order.f0, kept);
        }
    }

    public static class Customer implements KeySelector {
        public Object getKey(Object value) {
            return Long.valueOf(((Long) ((Tuple2) value).f0).longValue() % 4099L);
        }
    }

    public static class Latest implements ReduceFunction {
        public Object reduce(Object before, Object now) {
            return now;
        }
    }

    /** As many orders a second as a file says, shared by the subtasks of the source. */
    public static class Told implements RateLimiter {
        private final String file;
        private final int subtasks;
        private double rate;
        private long looked;
        private long began;
        private long given;

        public Told(String file, int subtasks) {
            this.file = file;
            this.subtasks = subtasks;
        }

        public CompletionStage acquire(int number) {
            long now = System.nanoTime();
            if (looked == 0L || now - looked > 1000000000L) {
                looked = now;
                double told = rate;
                try {
                    String text = new String(Files.readAllBytes(Paths.get(file, new String[0])));
                    told = Double.parseDouble(text.trim()) / subtasks;
                } catch (IOException error) {
                    throw new RuntimeException(error);
                }
                if (told != rate) {
                    rate = told;
                    began = now;
                    given = 0L;
                }
            }
            long due = began + (long) (1e9 * given / rate);
            given += number;
            if (due <= now) {
                return CompletableFuture.completedFuture(null);
            }
            return CompletableFuture.runAsync(
                new Nothing(), CompletableFuture.delayedExecutor(due - now, TimeUnit.NANOSECONDS));
        }
    }

    public static class Nothing implements Runnable {
        public void run() {
        }
    }

    public static class Follow implements RateLimiterStrategy {
        private final String file;

        public Follow(String file) {
            this.file = file;
        }

        public RateLimiter createRateLimiter(int subtasks) {
            return new Told(file, subtasks);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int[] number = new int[9];
        for (int i = 0; i < Math.min(arguments.length, number.length); i++) {
            number[i] = Integer.parseInt(arguments[i]);
        }
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment();
        TypeInformation order =
            Types.TUPLE(new TypeInformation[] {Types.LONG, Types.PRIMITIVE_ARRAY(Types.BYTE)});
        RateLimiterStrategy pace = number[6] > 0
            ? RateLimiterStrategy.perSecond(number[6]) : RateLimiterStrategy.noOp();
        if (arguments.length > number.length) {
            pace = new Follow(arguments[number.length]);
        }
        DataGeneratorSource source =
            new DataGeneratorSource(new Make(number[5]), Long.MAX_VALUE, pace, order);
        DataStream orders = flink.fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
            .setParallelism(number[0]);
        DataStream clean = orders.rebalance().map(new Keep(60, number[7])).returns(order).name("clean")
            .setParallelism(number[1]);
        DataStream sum = clean.keyBy(new Customer(), Types.LONG).reduce(new Latest()).name("sum")
            .setParallelism(number[2]);
        DataStream rate = sum.rebalance().map(new Keep(25, number[8])).returns(order).name("rate")
            .setParallelism(number[3]);
        rate.rebalance().sinkTo(new DiscardingSink()).name("store").setParallelism(number[4]);
        flink.execute("orders");
    }
}
